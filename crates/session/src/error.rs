//! Why a transfer failed, and the exit status that says so.

use std::io::ErrorKind;
use std::path::Path;

use lighthaul_io::error::Error as World;
use lighthaul_io::host::panics;

/// A failed transfer: one sentence that says what happened, to what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    /// The kind of failure.
    pub code: Code,
    /// The sentence.
    pub text: String,
}

/// Kinds of failure; the numbers are the command's exit statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// The request makes no sense.
    Usage = 1,
    /// The two sides do not understand each other.
    Protocol = 2,
    /// The source or target cannot be opened.
    Open = 3,
    /// The network failed; trying again is sensible.
    Network = 10,
    /// Reading or writing failed, say for lack of space.
    Io = 11,
    /// What arrived is not what was sent; nothing was published.
    Integrity = 12,
    /// The key or the permission is missing.
    Permission = 13,
    /// Somebody interrupted.
    Interrupted = 20,
    /// Some files failed.
    Partial = 23,
    /// Source files changed or vanished while they were sent.
    Changed = 24,
    /// Nothing was heard for too long.
    TimedOut = 30,
    /// A deadline or a reservation cannot be had.
    Refused = 40,
    /// A thread of the program panicked (`EX_SOFTWARE` of sysexits.h).
    Internal = 70,
}

impl Code {
    /// The code of this number; a number nobody knows is a protocol failure.
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
    /// A failure of this kind.
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }

    /// A file-system failure while doing `what` to `path`.
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

/// Runs `work`, a part of the program with this name. A panic in it is its error.
pub fn caught<T>(name: &str, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    panics::catch(name, work).map_err(World::from)?
}

/// The system's words without its number.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or(&text)
        .to_lowercase()
}
