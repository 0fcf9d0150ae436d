//! Programs that configure the kernel.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use crate::kernel::error::{Error, Task};

/// Program and its package.
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
    /// Runs the program for `task`, with these arguments and this input.
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
        if why.contains("Operation not permitted") {
            return Err(Error::NotPermitted(task));
        }
        Err(Error::Tool { task, tool, why })
    }
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
        let fail = |words: &str| {
            tool.run(Task::Capture, &["-c", words], "")
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            fail("echo a  b >&2; exit 1"),
            "cannot capture connections: sh failed: a b"
        );
        assert!(fail("echo Operation not permitted >&2; exit 1").contains("needs root"));
    }
}
