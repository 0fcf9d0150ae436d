//! Installation of a copy of this program on a host that has none, through one ssh command.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{ChildStdin, Command, Stdio};

use lighthaul_io::host::interrupt;
use lighthaul_session::error::Error;

use crate::ssh::error::SshError;
use crate::ssh::program_copy::{ProgramCopy, REPORT};

/// Most lines of a login shell beside those of the script.
const LINES_MAX: usize = 100;
/// Most bytes of a line.
const LINE_MAX: u64 = 4096;

/// Report of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Report {
    /// Kernel and architecture.
    System(String, String),
    /// The copy could not be written.
    Unwritten,
    /// The copy did not run, or is not what was sent: exit status of the attempt.
    Unusable(i32),
    /// The copy is in its place.
    Kept,
}

/// Copies this program to `host` by `ssh`, and verifies the copy there.
pub(super) fn install(ssh: &[String], host: &str, copy: &ProgramCopy) -> Result<(), Error> {
    let (program, options) = ssh.split_first().ok_or(SshError::NoCommand)?;
    let failed = |error: io::Error| SshError::NotStarted {
        program: program.clone(),
        error,
    };
    let mut child = Command::new(program)
        .args(options)
        .args([host, "--", &copy.install_script().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let kept = match (input, output) {
        (Some(input), Some(output)) => send(input, BufReader::new(output), host, copy),
        _ => Ok(false),
    };
    // the script ends with its input
    let status = child.wait().map_err(failed)?;
    interrupt::check()?;
    if kept? {
        return Ok(());
    }
    Err(SshError::of_status(status.code(), "sh", host).into())
}

/// Sends the program to the script. Returns false if the script ended without a report.
fn send(
    mut input: ChildStdin,
    mut output: impl BufRead,
    host: &str,
    copy: &ProgramCopy,
) -> Result<bool, SshError> {
    let host = host.to_owned();
    let Some(Report::System(system, machine)) = next_report(&mut output) else {
        return Ok(false);
    };
    if (system.as_str(), machine.as_str()) != ("Linux", std::env::consts::ARCH) {
        return Err(SshError::OtherSystem {
            host,
            system,
            machine,
        });
    }
    let mut program = File::open(&copy.path).map_err(SshError::Program)?;
    // the script says why its input ended early
    io::copy(&mut program, &mut input).ok();
    drop(input);
    match next_report(&mut output) {
        Some(Report::Kept) => Ok(true),
        Some(Report::Unwritten) => Err(SshError::CopyUnwritten { host }),
        Some(Report::Unusable(126)) => Err(SshError::CopyNotExecutable { host }),
        Some(Report::Unusable(_)) => Err(SshError::CopyUnusable { host }),
        Some(Report::System(..)) | None => Ok(false),
    }
}

/// Reads the next report. Other lines are of the login shell.
fn next_report(output: &mut impl BufRead) -> Option<Report> {
    (0..LINES_MAX).find_map(|_| {
        let mut line = Vec::new();
        let read = output.by_ref().take(LINE_MAX).read_until(b'\n', &mut line);
        match read {
            Ok(1..) => Some(report(&String::from_utf8_lossy(&line))),
            _ => Some(None),
        }
        .filter(|report| report.is_some() || line.is_empty())
    })?
}

/// Reads a line of the script.
fn report(line: &str) -> Option<Report> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [REPORT, "system", system, machine] => {
            Some(Report::System(system.to_owned(), machine.to_owned()))
        }
        [REPORT, "unwritten"] => Some(Report::Unwritten),
        [REPORT, "unusable", status] => status.parse().ok().map(Report::Unusable),
        [REPORT, "kept"] => Some(Report::Kept),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_found_between_lines_of_the_login_shell() {
        let text = "Welcome!\n\nlighthaul-copy system Linux x86_64\r\nnoise\nlighthaul-copy unusable 126\n";
        let mut output = text.as_bytes();
        let system = Report::System("Linux".into(), "x86_64".into());
        assert_eq!(next_report(&mut output), Some(system));
        assert_eq!(next_report(&mut output), Some(Report::Unusable(126)));
        assert_eq!(next_report(&mut output), None);
        // a shell that prints without end
        let noise = "noise\n".repeat(LINES_MAX + 1) + "lighthaul-copy kept\n";
        assert_eq!(next_report(&mut noise.as_bytes()), None);
        let long = "x".repeat(1 << 20) + "\nlighthaul-copy kept\n";
        assert_eq!(next_report(&mut long.as_bytes()), None);
    }
}
