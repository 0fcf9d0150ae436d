//! Errors of sessions and transfers, with the exit status of each kind.

use std::io::ErrorKind;
use std::path::Path;

use lighthaul_io::error::Error as World;
use lighthaul_io::host::panics;

/// Error of a session or transfer: one sentence with the failure, its object, the reason and the
/// remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    /// Kind of the failure.
    pub code: Code,
    /// Sentence for the user.
    pub text: String,
}

/// Kinds of failure; the numbers are the exit statuses of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// The request is invalid.
    Usage = 1,
    /// The two sides do not understand each other, or one broke the protocol.
    Protocol = 2,
    /// The source or the target cannot be opened.
    Open = 3,
    /// The network failed; a retry may succeed.
    Network = 10,
    /// Reading or writing a file failed, for example because the disk is full.
    Io = 11,
    /// The received data differ from those that were sent; nothing was published.
    Integrity = 12,
    /// The key or the permission is missing.
    Permission = 13,
    /// The user or a signal interrupted the command.
    Interrupted = 20,
    /// Some files failed.
    Partial = 23,
    /// Source files changed or vanished while they were sent.
    Changed = 24,
    /// Items stay because no more may be deleted.
    DeleteLimit = 25,
    /// The peer was silent for too long.
    TimedOut = 30,
    /// A deadline or a reservation is refused.
    Refused = 40,
    /// A thread of the program panicked (`EX_SOFTWARE` of sysexits.h).
    Internal = 70,
}

impl Code {
    /// Returns the code of this number, and `Protocol` for an unknown number.
    pub fn from_number(number: u8) -> Self {
        [
            Self::Usage,
            Self::Open,
            Self::Network,
            Self::Io,
            Self::Integrity,
            Self::Permission,
            Self::Interrupted,
            Self::Partial,
            Self::Changed,
            Self::DeleteLimit,
            Self::TimedOut,
            Self::Refused,
            Self::Internal,
        ]
        .into_iter()
        .find(|code| *code as u8 == number)
        .unwrap_or(Self::Protocol)
    }
}

impl Error {
    /// Creates an error of this kind.
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }

    /// Creates the error of a file-system operation `what` on `path`.
    pub fn file(code: Code, what: &str, path: &Path, error: &std::io::Error) -> Self {
        let kind = error.kind();
        if kind == ErrorKind::CrossesDevices {
            let text = format!("{what} {}: it leaves the root", path.display());
            return Self::new(Code::Permission, text);
        }
        let code = if kind == ErrorKind::PermissionDenied {
            Code::Permission
        } else if matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
            Code::Io
        } else {
            code
        };
        Self::new(code, format!("{what} {}: {}", path.display(), plain(error)))
    }
}

impl From<World> for Error {
    fn from(error: World) -> Self {
        let code = match &error {
            World::World { .. } | World::Store(_) => Code::Io,
            World::Network(_) => Code::Network,
            World::PeerMisbehaved(_) => Code::Protocol,
            World::TimedOut(_) => Code::TimedOut,
            World::Internal(_) => Code::Internal,
            World::Interrupted => Code::Interrupted,
        };
        Self::new(code, error.to_string())
    }
}

/// Runs `work`, a part of the program with this name. Returns a panic as an error.
pub fn caught<T>(name: &str, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    panics::catch(name, work).map_err(World::from)?
}

/// Returns the system's error text in lower case, without its number.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or(&text)
        .to_lowercase()
}
