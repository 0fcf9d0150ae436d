//! Programs that configure the kernel.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities, capability_is_in_ambient_set};

use crate::kernel::error::{Error, Task};

/// Program of the system, and the package that contains it.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    name: &'static str,
    package: &'static str,
}

/// Packet filter rules, in one transaction.
pub const NFT: Tool = Tool {
    name: "nft",
    package: "nftables",
};
/// Addresses, routes and routing rules.
pub const IP: Tool = Tool {
    name: "ip",
    package: "iproute2",
};

impl Tool {
    /// Runs the program for `task`, with the given arguments and input.
    pub fn run(self, task: Task, words: &[&str], input: &str) -> Result<(), Error> {
        let tool = self.name;
        let failed = |source: io::Error| {
            if source.kind() == io::ErrorKind::NotFound {
                let package = self.package;
                Error::NoTool {
                    task,
                    tool,
                    package,
                }
            } else {
                Error::World { task, source }
            }
        };
        let mut child = Command::new(tool)
            .args(words)
            // the environment of this process may contain secrets
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        if let Some(mut pipe) = child.stdin.take() {
            // a program that does not read all of its input reports why
            pipe.write_all(input.as_bytes()).ok();
        }
        let output = child.wait_with_output().map_err(failed)?;
        if output.status.success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&output.stderr);
        let why: Vec<&str> = why.split_whitespace().take(WORDS_MAX).collect();
        let why = why.join(" ");
        Err(self.fault(task, why, may_configure()))
    }

    /// Returns the fault of a failed run, with advice if the process may not configure networks.
    fn fault(self, task: Task, why: String, may_configure: bool) -> Error {
        if may_configure {
            let tool = self.name;
            Error::Tool { task, tool, why }
        } else {
            Error::NotPermitted(task)
        }
    }
}

/// Returns true if a program that this process runs may configure networks. A program of an ordinary
/// user gets only ambient capabilities (capabilities(7)).
fn may_configure() -> bool {
    let needed = CapabilitySet::NET_ADMIN;
    let is_held = capabilities(None).is_ok_and(|held| held.effective.contains(needed));
    let is_passed = || capability_is_in_ambient_set(needed) == Ok(true);
    is_held && (geteuid().is_root() || is_passed())
}

/// Maximum number of words of an error in a log line.
const WORDS_MAX: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_is_named_with_its_package() {
        let tool = Tool {
            name: "no-such-tool",
            package: "some-package",
        };
        let why = tool.run(Task::Capture, &[], "").unwrap_err().to_string();
        assert!(
            why.contains("no-such-tool, which is not installed"),
            "{why}"
        );
        assert!(why.contains("install some-package"), "{why}");
    }

    #[test]
    fn error_of_a_failed_program_is_reported() {
        let tool = Tool {
            name: "sh",
            package: "dash",
        };
        let failed = tool.run(Task::Capture, &["-c", "echo a  b >&2; exit 1"], "");
        let why = failed.unwrap_err().to_string();
        let told = "cannot capture connections: sh failed: a b";
        assert!(why == told || !may_configure(), "{why}");
        let fault = tool.fault(Task::Capture, "a b".to_owned(), true);
        assert_eq!(fault.to_string(), told);
        let fault = tool.fault(Task::Capture, "a b".to_owned(), false);
        assert!(fault.to_string().contains("needs root"), "{fault}");
    }
}
