//! Faults of copies, with their messages and exit statuses.
//!
//! [`Fault`] has one variant for each fault that sender or receiver find. The message is the text
//! of the variant. It names the object and, where there is one, the remedy. [`Coded`] maps each
//! variant to the exit status of the command.

use std::path::PathBuf;

use lighthaul_base::counted;
use lighthaul_files::names::NameFault;
use lighthaul_session::error::{Code, Coded, Error};

/// Fault of a copy.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A directory or a link to one stands where a file would be.
    #[error("cannot replace {place}: it is {1}; write {place}/ to copy into it", place = .0.display())]
    FolderInTheWay(PathBuf, &'static str),
    /// A device, FIFO or socket stands where an entry would be.
    #[error("cannot replace {}: it is a {what}; {advice}", .place.display())]
    SpecialInTheWay {
        /// Path at the target.
        place: PathBuf,
        /// Name of the entry's type.
        what: &'static str,
        /// Advice for the user.
        advice: &'static str,
    },
    /// An item of another type stands where an entry would be.
    #[error("{0}; remove it, or use --delete to replace it")]
    InTheWay(String),
    /// Rules protect the contents of a directory that would be replaced.
    #[error("{0}, but rules protect some of its contents")]
    Protected(String),
    /// A symbolic link in a copy to an object store.
    #[error(
        "cannot create {}: object stores have no symbolic links; use -L to copy what it points to, or exclude it",
        .0.display()
    )]
    LinkToStore(PathBuf),
    /// An object that another program has written during the copy.
    #[error(
        "cannot write {}: another program has written or removed it during the copy; copy again",
        .0.display()
    )]
    ObjectOvertaken(PathBuf),
    /// A name that the file system refuses.
    #[error("{0}")]
    Name(NameFault),
    /// A file larger than any file system allows.
    #[error("cannot create {}: no file can have {size} bytes", .place.display())]
    TooLarge {
        /// Path at the target.
        place: PathBuf,
        /// Size in bytes.
        size: u64,
    },
    /// Another copy writes the file.
    #[error("cannot write {}: another copy is writing it", .0.display())]
    Busy(PathBuf),
    /// Log of a part of a striped copy that another user wrote.
    #[error(
        "cannot use {}: another user has written it; run the daemons of all hosts of the target as the same user",
        .0.display()
    )]
    OtherUser(PathBuf),
    /// Too little space at the target.
    #[error("cannot copy to {}: {why}", .place.display())]
    NoSpace {
        /// Target directory.
        place: PathBuf,
        /// Needed and free space.
        why: String,
    },
    /// The first name of a hard link has failed, with the given exit status.
    #[error("cannot create {}: it is a hard link to a file that failed", .place.display())]
    LinkedFailed {
        /// Path at the target.
        place: PathBuf,
        /// Exit status of the first failure.
        code: u8,
    },
    /// The data of a file were changed in transit.
    #[error("the received data differ from the sent data")]
    Differs,
    /// The device returns other bytes than were written.
    #[error("the disk returns other bytes than were written, in the range from {from} to {till}")]
    ReadBack {
        /// First byte.
        from: u64,
        /// Byte after the last.
        till: u64,
    },
    /// A file that cannot get its final name.
    #[error("cannot publish {}: {error}{outcome}", .place.display())]
    Unpublished {
        /// Path at the target.
        place: PathBuf,
        /// Reason of the failure.
        error: Error,
        /// State of the target and remedy.
        outcome: &'static str,
    },
    /// The file at the target is not the expected one.
    #[error("{} differs from the expected file: {error}", .place.display())]
    Unexpected {
        /// Path at the target.
        place: PathBuf,
        /// Description of the difference.
        error: Error,
    },
    /// A source that changed after it was listed.
    #[error("cannot send {}: {how}", .place.display())]
    Changed {
        /// Path of the source.
        place: PathBuf,
        /// Kind of the change.
        how: &'static str,
    },
    /// A source file that is not removed, since it changed after it was copied.
    #[error("{} was not removed: it changed after it was copied", .0.display())]
    ChangedSince(PathBuf),
    /// More deletions than allowed.
    #[error(
        "deleted {}, the most that --max-delete allows; {spared} or more stay", counted(*.done, "item", "items")
    )]
    DeleteLimit {
        /// Number of deleted items.
        done: u64,
        /// Minimum number of items that stay.
        spared: u64,
    },
    /// Bytes without an object.
    #[error("received bytes belong to no object")]
    NoObject,
    /// Sources that exceed an object.
    #[error("cannot send the sources: they are too large")]
    SourcesTooLarge,
    /// Too many failures; the last one.
    #[error("{what}; the last error: {last}")]
    TooManyFailures {
        /// Limit that was exceeded.
        what: String,
        /// Last failure.
        last: String,
    },
    /// The peer sends keepalives but makes no progress for the given number of seconds.
    #[error("the peer is connected, but has done nothing for {0} s")]
    Idle(u64),
    /// The peer is silent for the given number of seconds.
    #[error("no data from the {0} for {1} s")]
    Silent(&'static str, u64),
    /// The connection ended early.
    #[error("the connection ended before the list of entries began")]
    NoList,
    /// Another thread of the transfer failed.
    #[error("another part of the transfer failed")]
    Stopped,
    /// A protocol without its vector, or a vector without its protocol.
    #[error("{0}")]
    Vector(String),
    /// An expected hash and several files.
    #[error("--hash with a value applies to one file; omit the value to copy more")]
    OneHash,
}

impl Coded for Fault {
    fn code(&self) -> Code {
        match self {
            Self::FolderInTheWay(..)
            | Self::SpecialInTheWay { .. }
            | Self::InTheWay(_)
            | Self::Protected(_)
            | Self::Name(_)
            | Self::LinkToStore(_)
            | Self::Busy(_)
            | Self::OtherUser(_) => Code::Open,
            Self::TooLarge { .. } | Self::NoSpace { .. } | Self::NoObject => Code::Io,
            Self::LinkedFailed { code, .. } => Code::from_number(*code),
            Self::Differs | Self::ReadBack { .. } => Code::Integrity,
            Self::Unpublished { error, .. } | Self::Unexpected { error, .. } => error.code(),
            Self::Changed { .. } | Self::ChangedSince(_) | Self::ObjectOvertaken(_) => {
                Code::Changed
            }
            Self::DeleteLimit { .. } => Code::DeleteLimit,
            Self::SourcesTooLarge | Self::Vector(_) | Self::OneHash => Code::Usage,
            Self::TooManyFailures { .. } => Code::Partial,
            Self::Idle(_) | Self::Silent(..) => Code::TimedOut,
            Self::NoList => Code::Network,
            Self::Stopped => Code::Interrupted,
        }
    }
}
