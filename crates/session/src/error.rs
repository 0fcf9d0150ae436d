//! Errors of sessions and transfers, with the exit status of each kind.

use std::fmt::{self, Debug, Display, Formatter};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use lighthaul_io::error::Error as World;
use lighthaul_io::host::panics;

/// Error of a session or of one of its topics: a fault that has an exit status and one sentence.
#[derive(Clone)]
pub struct Error(Arc<dyn Coded>);

/// Fault with an exit status. Each crate has enums of its faults; their `Display` is one sentence with the failure, its
/// object, the reason and the remedy.
pub trait Coded: Debug + Display + Send + Sync {
    /// Returns the kind of the failure, from the variant.
    fn code(&self) -> Code;
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
        Untyped {
            code,
            text: text.into(),
        }
        .into()
    }

    /// Returns the kind of the failure.
    pub fn code(&self) -> Code {
        self.0.code()
    }

    /// Returns the sentence for the user.
    pub fn text(&self) -> String {
        self.0.to_string()
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

impl<F: Coded + 'static> From<F> for Error {
    fn from(fault: F) -> Self {
        Self(Arc::new(fault))
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

impl Debug for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Debug::fmt(&self.0, f)
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        (self.code(), self.text()) == (other.code(), other.text())
    }
}

impl Eq for Error {}

impl std::error::Error for Error {}

#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Untyped {
    code: Code,
    text: String,
}

impl Coded for Untyped {
    fn code(&self) -> Code {
        self.code
    }
}

impl Coded for World {
    fn code(&self) -> Code {
        match self {
            Self::World { .. } | Self::Store(_) => Code::Io,
            Self::Network(_) => Code::Network,
            Self::PeerMisbehaved(_) => Code::Protocol,
            Self::TimedOut(_) => Code::TimedOut,
            Self::Internal(_) => Code::Internal,
            Self::Interrupted => Code::Interrupted,
        }
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
