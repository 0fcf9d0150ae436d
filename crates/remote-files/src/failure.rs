//! Failed requests, with a kind that programs can act on.

use std::io;
use std::path::Path;

use lighthaul_session::error::{Code, Coded, Error, FileAction};
use serde::{Deserialize, Serialize};

/// Kinds of failed requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// The file or directory does not exist.
    NotFound,
    /// The path exists, and may not be replaced.
    Exists,
    /// A part of the path is no directory.
    NotFolder,
    /// The path is a directory.
    IsFolder,
    /// The directory is not empty.
    NotEmpty,
    /// The permission is missing, or the path leads out of the root.
    Denied,
    /// The disk or the quota is full.
    NoSpace,
    /// The files of the server may only be read.
    ReadOnly,
    /// The file has another version than before.
    Changed,
    /// The written bytes differ from the bytes that the client sent.
    Corrupt,
    /// Another writer has the file, or the server has too many open files.
    Busy,
    /// The request is not possible for this file.
    Invalid,
    /// The connection was lost.
    Lost,
    /// Another failure.
    Other,
    /// The session has too many long requests. The server has done nothing of this one.
    Crowded,
}

/// Failed request about a remote file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Exit status.
    pub code: Code,
    /// Sentence for the user.
    pub text: String,
}

impl Coded for Failure {
    fn code(&self) -> Code {
        self.code
    }
}

impl Failure {
    /// Returns the failure of an operation of the system on the file at `path`.
    pub(crate) fn of(action: FileAction, path: &Path, error: &io::Error) -> Self {
        let kind = kind_of(error);
        let error = Error::file(action, path, error);
        Self {
            kind,
            code: error.code(),
            text: error.text(),
        }
    }

    /// Returns a failure of the given kind.
    pub(crate) fn new(kind: FailureKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            code: kind.code(),
            text: text.into(),
        }
    }

    /// Returns the failure of a file that another program has changed.
    pub(crate) fn changed(path: &Path) -> Self {
        let path = path.display();
        let text = format!("cannot read {path}: it changed while it was open; open it again");
        Self::new(FailureKind::Changed, text)
    }

    /// Returns the failure of a request whose caller no longer waits.
    pub(crate) fn interrupted() -> Self {
        Self {
            kind: FailureKind::Other,
            code: Code::Interrupted,
            text: "the request was interrupted before its answer came".to_owned(),
        }
    }

    /// Returns the failure that the peer reported.
    pub(crate) fn reported(kind: FailureKind, code: u8, text: String) -> Self {
        Self {
            kind,
            code: Code::from_number(code),
            text,
        }
    }

    /// Returns the failure of a connection that has ended with `error`.
    pub(crate) fn lost(error: &Error) -> Self {
        let is_loss = matches!(
            error.code(),
            Code::Network | Code::TimedOut | Code::Stopping
        );
        Self {
            kind: if is_loss {
                FailureKind::Lost
            } else {
                FailureKind::Other
            },
            code: error.code(),
            text: error.text(),
        }
    }
}

impl FailureKind {
    const fn code(self) -> Code {
        match self {
            Self::NotFound | Self::Exists | Self::NotFolder | Self::IsFolder => Code::Open,
            Self::Denied | Self::ReadOnly => Code::Permission,
            Self::Changed => Code::Changed,
            Self::Corrupt => Code::Integrity,
            Self::Invalid => Code::Usage,
            Self::Lost => Code::Network,
            Self::NotEmpty | Self::NoSpace | Self::Busy | Self::Other | Self::Crowded => Code::Io,
        }
    }
}

fn kind_of(error: &io::Error) -> FailureKind {
    KINDS
        .iter()
        .find(|(kind, _)| *kind == error.kind())
        .map_or(FailureKind::Other, |(_, kind)| *kind)
}

/// Kinds of the system's errors. A path that leaves the root crosses devices for the kernel.
const KINDS: [(io::ErrorKind, FailureKind); 12] = [
    (io::ErrorKind::NotFound, FailureKind::NotFound),
    (io::ErrorKind::AlreadyExists, FailureKind::Exists),
    (io::ErrorKind::NotADirectory, FailureKind::NotFolder),
    (io::ErrorKind::IsADirectory, FailureKind::IsFolder),
    (io::ErrorKind::DirectoryNotEmpty, FailureKind::NotEmpty),
    (io::ErrorKind::PermissionDenied, FailureKind::Denied),
    (io::ErrorKind::CrossesDevices, FailureKind::Denied),
    (io::ErrorKind::StorageFull, FailureKind::NoSpace),
    (io::ErrorKind::QuotaExceeded, FailureKind::NoSpace),
    (io::ErrorKind::ReadOnlyFilesystem, FailureKind::ReadOnly),
    (io::ErrorKind::WouldBlock, FailureKind::Busy),
    (io::ErrorKind::InvalidInput, FailureKind::Invalid),
];
