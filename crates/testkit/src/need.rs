//! Checks of a test's requirements.

use std::fmt::Display;
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

/// Directories of commands, including those only in root's path.
const PATH: &str = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
