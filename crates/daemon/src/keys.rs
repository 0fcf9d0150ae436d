//! Which keys are known: a line each, a name and a fingerprint, in files that people can edit.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use lighthaul_io::identity::Fingerprint;

/// The key that `host` is known by in the file at `path`, if it is.
pub fn known_host(path: &Path, host: &str) -> io::Result<Option<Fingerprint>> {
    let found = lines(path)?
        .into_iter()
        .find(|(print, name)| name == host && print.is_some());
    Ok(found.and_then(|(print, _)| print))
}

/// Whether the file at `path` lists `key`.
pub fn is_allowed(path: &Path, key: Fingerprint) -> io::Result<bool> {
    Ok(lines(path)?
        .into_iter()
        .any(|(print, _)| print == Some(key)))
}

/// Adds `key` under `name` to the file at `path`.
pub fn add(path: &Path, key: Fingerprint, name: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)?;
    writeln!(file, "{key} {name}")
}

/// The lines of the file: a fingerprint and what is written behind it. A missing file has none.
fn lines(path: &Path) -> io::Result<Vec<(Option<Fingerprint>, String)>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let line = |line: &str| {
        let (print, name) = line
            .trim()
            .split_once(' ')
            .unwrap_or_else(|| (line.trim(), ""));
        (print.parse().ok(), name.trim().to_owned())
    };
    Ok(text
        .lines()
        .filter(|l| !l.trim_start().starts_with('#'))
        .map(line)
        .collect())
}
