//! Files of figures, and settings that several kinds of plans share.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_base::config_fault::fault_in;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::quantity;

/// Settings of the path of all curves.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PathSettings {
    rate: String,
    rtt: String,
    queue: String,
}

impl PathSettings {
    /// Returns the rate, the round-trip time, and the queue's size in bytes.
    pub(crate) fn check(&self) -> std::result::Result<(Rate, Duration, u64), String> {
        Ok((
            quantity::rate(&self.rate)?,
            quantity::duration(&self.rtt)?,
            quantity::bytes(&self.queue)?,
        ))
    }
}

/// Settings of the packets of all curves.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PacketSettings {
    pub(crate) len: u32,
    pub(crate) overhead: u32,
    pub(crate) settle: String,
}

/// Parses the settings in `text`, which is TOML.
pub fn settings<T: DeserializeOwned>(text: &str) -> std::result::Result<T, String> {
    toml::from_str(text).map_err(|why| fault_in(text, why.span(), why.message()))
}

/// Reads plans from `files`. Each file names its figure.
pub fn read_all<T>(
    files: impl IntoIterator<Item = PathBuf>,
    parse: impl Fn(&str, &str) -> std::result::Result<T, String>,
) -> Result<Vec<T>> {
    let files = files.into_iter();
    files.map(|file| read(&file, &parse)).collect()
}

/// Reads a file and passes its name, without extension, and its text to `parse`.
pub fn read<T>(
    file: &Path,
    parse: impl FnOnce(&str, &str) -> std::result::Result<T, String>,
) -> Result<T> {
    let what = format!("read {}", file.display());
    let text = fs::read_to_string(file).map_err(Error::world(what))?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    parse(&name, &text).map_err(|why| Error::Misuse(format!("{}: {why}", file.display())))
}

/// Lists the plans (`*.toml`) in `dir`, sorted by name.
pub fn plans(dir: &Path) -> Result<Vec<PathBuf>> {
    let what = || format!("read {}", dir.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::world(what()))? {
        files.push(entry.map_err(Error::world(what()))?.path());
    }
    files.retain(|file| file.extension() == Some(OsStr::new("toml")));
    files.sort();
    Ok(files)
}

/// Lists the plans in `dir`, sorted by name. Returns none if there is no such directory.
pub fn plans_if_any(dir: &Path) -> Result<Vec<PathBuf>> {
    if dir.exists() {
        plans(dir)
    } else {
        Ok(Vec::new())
    }
}

/// Writes a figure's file.
pub(crate) fn write(file: &Path, octets: &[u8]) -> Result<()> {
    let what = format!("write {}", file.display());
    fs::write(file, octets).map_err(Error::world(what))
}
