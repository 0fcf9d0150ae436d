//! Installation of a copy of this program on a host that has none, within the login that starts it.
//!
//! ```text
//! here   key                         "install", program                  key
//! there       begun  missing, system                     copied              greeting
//! ```

use std::io::{self, Read, Write};
use std::time::Duration;

use lighthaul_base::Size;
use lighthaul_daemon::greeting::GREETING;
use lighthaul_session::error::Error;

use crate::ssh::command::Ssh;
use crate::ssh::error::SshError;
use crate::ssh::far_program::DEFAULT;
use crate::ssh::greeting::{Limit, read_line};
use crate::ssh::program_copy::{INSTALL, ProgramCopy, open_this_program};
use crate::ssh::report::{REPORT, Report, System};
use crate::user::User;

/// Permission to put a copy of this program on a host without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Install {
    /// No copy is installed.
    Never,
    /// The user is asked.
    Ask,
    /// A copy is installed without a question.
    Always,
}

/// Result of a search for the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The installed program has started.
    Installed,
    /// The copy has started.
    Copy,
}

impl Install {
    /// Returns the permission for a command with or without the option `--install`; without it, `otherwise`.
    pub const fn if_requested(is_requested: bool, otherwise: Self) -> Self {
        if is_requested {
            Self::Always
        } else {
            otherwise
        }
    }
}

/// Host on which the program is sought.
pub(super) struct Search<'a> {
    pub(super) ssh: &'a Ssh,
    pub(super) copy: &'a ProgramCopy,
    pub(super) install: Install,
    /// Longest silence after the login.
    pub(super) patience: Duration,
    pub(super) user: &'a dyn User,
}

impl Search<'_> {
    /// Reads the reports of the script, and installs a copy if that is permitted. Returns the program that has started
    /// and the words of its greeting, or none if it ended without.
    ///
    /// `key` is the line that the program awaits; it was sent once.
    pub(super) fn follow(
        &self,
        mut input: impl Write,
        output: &mut impl Read,
        key: &str,
    ) -> Result<Option<(Found, Vec<String>)>, Error> {
        // a server may run a command of its own in place of the script
        let mut found = Found::Installed;
        let mut is_requested = false;
        // the login may wait for the user
        let mut limit = Limit(None);
        for _ in 0..LINES_MAX {
            let Some((mark, words)) = read_line(output, &[GREETING, REPORT], limit)? else {
                if limit.has_come() {
                    return Err(silent(self.ssh, DEFAULT, self.patience));
                }
                break;
            };
            limit = Limit::after(self.patience + MARGIN);
            if mark == GREETING {
                return Ok(Some((found, words)));
            }
            match Report::parse(&words) {
                None | Some(Report::Installed) => {}
                Some(Report::Copy) => found = Found::Copy,
                Some(Report::Copied) => {
                    found = Found::Copy;
                    // the script may have read further than the program's bytes before
                    let sent = input.write_all(key.as_bytes());
                    sent.and_then(|()| input.flush()).ok();
                }
                Some(Report::Missing(..)) if is_requested => break,
                Some(Report::Missing(system, other)) => {
                    is_requested = true;
                    self.permit(&system, other)?;
                    // the script reports why its input ended early
                    send(&mut input).ok();
                    limit = Limit(None);
                }
                Some(Report::Silent) => {
                    return Err(silent(self.ssh, DEFAULT, self.patience));
                }
                Some(Report::Unwritten(why)) => {
                    let host = self.ssh.host.clone();
                    return Err(SshError::CopyNotWritten { host, why }.into());
                }
                Some(Report::Unusable(status, why)) => return Err(self.unusable(status, why)),
            }
        }
        Ok(None)
    }

    /// Returns the error about a copy that ended with `status` and printed `why`.
    fn unusable(&self, status: i32, why: String) -> Error {
        let host = self.ssh.host.clone();
        let error = match status {
            NOT_EXECUTABLE => SshError::CopyNotExecutable { host },
            _ if why.is_empty() => SshError::CopyNotUsable {
                host,
                why: format!("status {status}"),
            },
            _ => SshError::CopyNotUsable { host, why },
        };
        error.into()
    }

    /// Returns an error if no copy may be installed, or if the copy cannot run on the host.
    fn permit(&self, system: &System, other: Option<String>) -> Result<(), Error> {
        let host = self.ssh.host.clone();
        if !system.runs_this_program() {
            let System { kernel, machine } = system.clone();
            return Err(SshError::OtherSystem {
                host,
                kernel,
                machine,
            }
            .into());
        }
        let size = Size(self.copy.len);
        let is_permitted = match self.install {
            Install::Never => false,
            Install::Always => true,
            Install::Ask => {
                let why = match &other {
                    None => format!("lighthaul is not installed on {host}"),
                    Some(other) => format!("{other} on {host} has another protocol version"),
                };
                self.user.agrees(&format!(
                    "{why}. Put a copy of this program ({size}) into the cache directory there, and run it?"
                ))?
            }
        };
        if !is_permitted {
            return Err(match other {
                None => SshError::NothingInstalled { host },
                Some(theirs) => SshError::OtherVersion { host, theirs },
            }
            .into());
        }
        self.user.tell(&format!(
            "putting a copy of this program ({size}) into the cache directory on {host}"
        ));
        Ok(())
    }
}

/// Returns the error of the program `remote` that was silent for `patience`.
pub(super) fn silent(ssh: &Ssh, remote: &str, patience: Duration) -> Error {
    let fault = SshError::Silent {
        remote: remote.to_owned(),
        host: ssh.host.clone(),
        command: ssh.line(),
        seconds: patience.as_secs().max(1),
    };
    fault.into()
}

/// Sends the request and the program.
fn send(input: &mut impl Write) -> io::Result<()> {
    writeln!(input, "{INSTALL}")?;
    io::copy(&mut open_this_program()?, input)?;
    input.flush()
}

/// Status of a shell whose command may not be executed.
const NOT_EXECUTABLE: i32 = 126;
/// Time for the script to report that a program was silent.
pub(super) const MARGIN: Duration = Duration::from_secs(2);
/// Maximum number of lines of the script before the greeting: it prints four.
const LINES_MAX: usize = 8;
