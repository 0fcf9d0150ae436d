//! Command of a program behind the library that captures its connections.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::StartError;
use crate::program;

/// Returns the command of `words` with its connections sent to `gateway`: an address, with credentials if required.
pub fn command(words: &[OsString], gateway: &str) -> Result<Command, StartError> {
    let library = library()?;
    let (name, rest) = words
        .split_first()
        .ok_or_else(|| StartError::missing("give a command to run".to_owned()))?;
    let path = program::find(name)?;
    program::check(&path, &library)?;
    let mut command = Command::new(path);
    command
        .arg0(name)
        .args(rest)
        .env(GATEWAY, gateway)
        .env(PRELOAD, preload(&library, env::var_os(PRELOAD)));
    Ok(command)
}

/// Returns the path of the library: beside this program, or in the directory of `make install`.
fn library() -> Result<PathBuf, StartError> {
    let own = env::current_exe().map_err(|why| {
        StartError::ours(format!("cannot determine the path of this program: {why}"))
    })?;
    let folder = own.parent().unwrap_or_else(|| Path::new("/"));
    let places = [
        folder.join(LIBRARY),
        folder.join("../lib/lighthaul").join(LIBRARY),
    ];
    let found = places.iter().find_map(|place| place.canonicalize().ok());
    let library = found.ok_or_else(|| {
        let [beside, installed] = places.map(|place| place.display().to_string());
        StartError::ours(format!(
            "cannot find the library that captures connections, neither {beside} nor {installed}: run `make install`, or copy the library to {installed}"
        ))
    })?;
    // the dynamic linker reads both as separators
    if library
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|octet| b" :".contains(octet))
    {
        return Err(StartError::ours(format!(
            "{} cannot be loaded, since its path has a space or a colon: move it to another directory",
            library.display()
        )));
    }
    Ok(library)
}

/// Returns the libraries to load before libc: `library`, and the libraries that the caller preloads.
fn preload(library: &Path, others: Option<OsString>) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(OsStr::new(":"));
        all.push(others);
    }
    all
}

const LIBRARY: &str = "liblighthaul_wrap.so";

const PRELOAD: &str = "LD_PRELOAD";

/// Environment variable with the gateway's address, for the library.
const GATEWAY: &str = "LIGHTHAUL_WRAP";
