//! Failures of operations on files, all with the same wording.
//!
//! A [`FileAction`] is an operation, with one phrase and one exit status. `FileError` adds the path
//! and the reason of the system: "cannot read /a: permission denied". A few reasons, such as a full
//! disk, have an exit status of their own, whatever the action was. What to do comes last.

use std::fmt::{self, Display, Formatter};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::code::{Code, Coded};

/// Failed operation on a file or directory.
#[derive(Debug)]
pub(crate) struct FileError {
    action: FileAction,
    path: PathBuf,
    kind: ErrorKind,
    /// Text of the system in lower case, without its number.
    reason: String,
}

/// Operation on a file or directory. Each has one phrase and one exit status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileAction {
    /// Open a source or another existing file or directory.
    #[error("cannot open")]
    Open,
    /// Open the root of a daemon.
    #[error("cannot open the root")]
    OpenRoot,
    /// Open the target directory of a copy.
    #[error("cannot open the target directory")]
    OpenTarget,
    /// Open a stream.
    #[error("cannot open the stream")]
    OpenStream,
    /// Open the status socket of a gateway.
    #[error("cannot open the status socket")]
    OpenSocket,
    /// Create a file.
    #[error("cannot create")]
    Create,
    /// Create a directory.
    #[error("cannot create the directory")]
    CreateFolder,
    /// Create the target directory of a copy.
    #[error("cannot create the target directory")]
    CreateTarget,
    /// Create a symbolic link.
    #[error("cannot create the link")]
    CreateLink,
    /// Create a hard link to the file that is named.
    #[error("cannot create a hard link to {} at", .0.display())]
    HardLink(PathBuf),
    /// List a directory.
    #[error("cannot list")]
    List,
    /// Read a file.
    #[error("cannot read")]
    Read,
    /// Read a written file again.
    #[error("cannot read back")]
    ReadBack,
    /// Read metadata.
    #[error("cannot read the metadata of")]
    ReadMetadata,
    /// Set metadata.
    #[error("cannot set mode and time of")]
    SetMetadata,
    /// Read the free space of a file system.
    #[error("cannot determine the free space for")]
    ReadSpace,
    /// Write a file.
    #[error("cannot write")]
    Write,
    /// Print on standard output. That may be a device, so a full one need not be a full disk.
    #[error("cannot write")]
    Print,
    /// Write the journal of a file.
    #[error("cannot write the journal of")]
    WriteJournal,
    /// Give a complete file its final name.
    #[error("cannot publish")]
    Publish,
    /// Write a file to its device.
    #[error("cannot sync")]
    Sync,
    /// Keep the previous file as a backup.
    #[error("cannot keep a backup of")]
    KeepBackup,
    /// Open a directory of earlier copies.
    #[error("cannot open --link-dest")]
    OpenReference,
    /// Rename a file or directory.
    #[error("cannot rename")]
    Rename,
    /// Remove a file or directory.
    #[error("cannot remove")]
    Remove,
    /// Measure the throughput of a disk.
    #[error("cannot measure the disk at")]
    MeasureDisk,
    /// Read a private key or a list of keys.
    #[error("cannot read the keys in")]
    ReadKeys,
    /// Read a token.
    #[error("cannot read the token in")]
    ReadToken,
    /// Read a statement.
    #[error("cannot read the statement in")]
    ReadStatement,
    /// Read or extend the list of known hosts.
    #[error("cannot keep known keys in")]
    KeepKnown,
}

impl FileError {
    /// Creates the error of an operation on `path` from that of the system.
    pub(crate) fn new(action: FileAction, path: &Path, error: &io::Error) -> Self {
        let known = KNOWN.iter().find(|(kind, _)| *kind == error.kind());
        let known = known.filter(|_| action != FileAction::Print);
        let reason = known.map_or_else(|| plain(error), |(_, text)| (*text).to_owned());
        Self {
            action,
            path: path.to_owned(),
            kind: error.kind(),
            reason,
        }
    }
}

impl Display for FileError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: {}",
            self.action,
            self.path.display(),
            self.reason
        )?;
        self.action
            .remedy()
            .map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

impl Coded for FileError {
    fn code(&self) -> Code {
        let is_one_of = |kinds: &[ErrorKind]| kinds.contains(&self.kind);
        if is_one_of(&[ErrorKind::CrossesDevices, ErrorKind::PermissionDenied]) {
            Code::Permission
        } else if is_one_of(&[ErrorKind::StorageFull, ErrorKind::QuotaExceeded]) {
            Code::Io
        } else if self.action == FileAction::Remove && is_one_of(&[ErrorKind::NotFound]) {
            Code::Open
        } else {
            self.action.code()
        }
    }
}

impl FileAction {
    /// Returns the advice for a failure, if the user can choose another option.
    fn remedy(&self) -> Option<&'static str> {
        let remedies = [
            (
                Self::OpenSocket,
                "no gateway listens on it (--socket names another)",
            ),
            (Self::KeepKnown, "give this key with --pin instead"),
        ];
        let found = remedies.into_iter().find(|(action, _)| action == self);
        found.map(|(_, remedy)| remedy)
    }

    const fn code(&self) -> Code {
        match self {
            Self::Open
            | Self::OpenRoot
            | Self::OpenReference
            | Self::OpenTarget
            | Self::OpenStream
            | Self::Create
            | Self::CreateFolder
            | Self::CreateTarget
            | Self::CreateLink
            | Self::List
            | Self::ReadMetadata => Code::Open,
            Self::HardLink(_)
            | Self::Read
            | Self::ReadBack
            | Self::SetMetadata
            | Self::ReadSpace
            | Self::Write
            | Self::Print
            | Self::WriteJournal
            | Self::Publish
            | Self::Sync
            | Self::Rename
            | Self::Remove
            | Self::KeepBackup
            | Self::MeasureDisk => Code::Io,
            Self::OpenSocket => Code::Network,
            Self::ReadKeys | Self::ReadToken | Self::ReadStatement | Self::KeepKnown => {
                Code::Permission
            }
        }
    }
}

/// Errors of the system whose texts are too vague for users.
const KNOWN: [(ErrorKind, &str); 3] = [
    (ErrorKind::CrossesDevices, "it leaves the root"),
    (
        ErrorKind::StorageFull,
        "the disk is full; free space there and run the same command again",
    ),
    (
        ErrorKind::QuotaExceeded,
        "the quota there is used up; free space and run the same command again",
    ),
];

/// Returns the system's error text in lower case, without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or(&text)
        .to_lowercase()
}
