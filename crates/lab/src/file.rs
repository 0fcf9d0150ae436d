//! What the files of figures have in common, whatever their plans are about.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_base::Rate;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::quantity;

/// The path of all curves.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PathSettings {
    rate: String,
    rtt: String,
    queue: String,
}

impl PathSettings {
    /// Its rate, its round-trip time, and the bytes of its queue.
    pub(crate) fn check(&self) -> std::result::Result<(Rate, Duration, u64), String> {
        Ok((
            quantity::rate(&self.rate)?,
            quantity::duration(&self.rtt)?,
            quantity::bytes(&self.queue)?,
        ))
    }
}

/// The packets of all curves.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PacketSettings {
    pub(crate) len: u32,
    pub(crate) overhead: u32,
    pub(crate) settle: String,
}

/// Reads a file's text with `parse`, which is also told what the file is called.
pub(crate) fn read<T>(
    file: &Path,
    parse: impl FnOnce(&str, &str) -> std::result::Result<T, String>,
) -> Result<T> {
    let what = format!("read {}", file.display());
    let text = fs::read_to_string(file).map_err(Error::world(what))?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    parse(&name, &text).map_err(|why| Error::Misuse(format!("{}: {why}", file.display())))
}

/// The plans in `dir`, in the order of their names.
pub(crate) fn plans(dir: &Path) -> Result<Vec<PathBuf>> {
    let what = || format!("read {}", dir.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::world(what()))? {
        files.push(entry.map_err(Error::world(what()))?.path());
    }
    files.retain(|file| file.extension() == Some(OsStr::new("toml")));
    files.sort();
    Ok(files)
}

/// Writes a file of a figure.
pub(crate) fn write(file: &Path, octets: &[u8]) -> Result<()> {
    let what = format!("write {}", file.display());
    fs::write(file, octets).map_err(Error::world(what))
}
