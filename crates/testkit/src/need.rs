//! Checks of a test's requirements.

use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::geteuid;

use crate::skip::skip;

/// Skips a test if a check has failed. Returns true if it did.
pub fn lacks<T, E: Display>(test: &str, check: Result<T, E>) -> bool {
    let Err(why) = check else { return false };
    skip(test, why);
    true
}

/// Skips a test if it does not run as root. Returns true if it did.
pub fn lacks_root(test: &str) -> bool {
    lacks(test, geteuid().is_root().then_some(()).ok_or("needs root"))
}

/// Skips a test if a command is not installed. Returns true if it did.
pub fn lacks_tool(test: &str, name: &str) -> bool {
    let started = Command::new(name)
        .arg("--version")
        .env("PATH", PATH)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    lacks(
        test,
        started.map_err(|error| format!("needs the command {name}: {error}")),
    )
}

/// Directories of commands, with the directories that only root has in its path.
const PATH: &str = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the path of the library that shows a process another time. The command `faketime` is no replacement: the
/// memory that it shares with its children is removed once it ends.
pub fn libfaketime(test: &str) -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut paths = folders.map(|item| item.path().join("faketime/libfaketime.so.1"));
    let found = paths.find(|path| path.exists());
    let missing = || "needs libfaketime".to_owned();
    let is_missing = lacks(test, found.as_ref().map(drop).ok_or_else(missing));
    found.filter(|_| !is_missing)
}
