//! Faults of the database that keeps the reservations.
//!
//! [`StoreError`] covers `SQLite` files and `PostgreSQL` servers. [`SqliteFault`] and [`ServerFault`]
//! class the codes of the two databases, and select the remedy of the message. After a failed
//! action the books are unchanged, so a client can repeat its request. [`TopologyMismatch`] is also
//! an error at the start of the scheduler.

use std::path::PathBuf;

use lighthaul_booking_client::reservation::BrokenJournal;
use lighthaul_database::ServerFault;

use super::listing::listing;

/// Fault of the database that keeps the reservations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Action on the file of a database that failed.
    #[error(
        "cannot {action} the books in {}: {why}; nothing was changed: {}",
        .path.display(),
        .fault.remedy()
    )]
    Sqlite {
        /// Verb, as in "open" or "write".
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Message of the database.
        why: String,
        /// Fault.
        fault: SqliteFault,
    },
    /// Action at a server that failed.
    #[error(
        "cannot {action} the PostgreSQL server of the books: {why}; nothing was changed: {}",
        .fault.remedy()
    )]
    Server {
        /// Verb, as in "connect to" or "write to".
        action: &'static str,
        /// Message of the server.
        why: String,
        /// Fault.
        fault: ServerFault,
    },
    /// The file was replaced while it was open.
    #[error(
        "{} was replaced or removed while it was in use: stop the scheduler, restore the right file, and start it again",
        .0.display()
    )]
    Replaced(PathBuf),
    /// Another process has written the file.
    #[error("another process has written {}: start only one scheduler with this file", .0.display())]
    Shared(PathBuf),
    /// Another instance has become the writer.
    #[error("another instance has become the writer; nothing was changed, try again")]
    LostElection,
    /// The store has a document of an unknown kind.
    #[error("the store has a document of unknown kind {0}: install the version that wrote it")]
    UnknownKind(String),
    /// The store has another format.
    #[error(
        "the store has format {found}, and this version has format {expected}: install the version that wrote it"
    )]
    Format {
        /// Format of the store.
        found: i32,
        /// Format that this program supports.
        expected: i32,
    },
    /// A document is not valid JSON.
    #[error("the store has an invalid document: {0}; restore it from a backup")]
    Document(String),
    /// The journal of a reservation is not consistent.
    #[error(transparent)]
    Journal(#[from] BrokenJournal),
    /// A stored request lacks the given field.
    #[error("the store has a reservation without {0}: restore it from a backup")]
    MissingField(&'static str),
    /// The topology lacks parts of existing reservations.
    #[error(transparent)]
    Mismatch(#[from] TopologyMismatch),
    /// The file with the position of the store is damaged.
    #[error(
        "cannot tell if the books are up to date: {} is damaged or cannot be read; restore that file from a backup, or start the scheduler once with --accept-restored to use the books as they are",
        .0.display()
    )]
    PositionDamaged(PathBuf),
    /// The store is older than before.
    #[error(
        "the reservation store is older than before: it had change {seen}, now it has {found} changes; restore the newer one, or start the scheduler once with --accept-restored and lose the later reservations"
    )]
    WentBackwards {
        /// Number of the last known change.
        seen: u64,
        /// Number of the last change in the store.
        found: u64,
    },
}

/// Reason for which a database file cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqliteFault {
    /// The disk is full.
    DiskFull,
    /// Another process has locked the file.
    Locked,
    /// The file cannot be opened.
    Path,
    /// The file is read-only.
    ReadOnly,
    /// The file is damaged, or not a database.
    Corrupt,
    /// Another fault.
    Other,
}

impl SqliteFault {
    const fn remedy(self) -> &'static str {
        match self {
            Self::DiskFull => "free space on its disk, and try again",
            Self::Locked => "another scheduler has it open: stop that scheduler, or use PostgreSQL",
            Self::Path => "check that its directory exists and is yours",
            Self::ReadOnly => "make it writable",
            Self::Corrupt => "restore it from a backup",
            Self::Other => "check its disk, and try again",
        }
    }
}

/// Topology that lacks parts of existing reservations: the file may be the wrong one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the topology lacks {}, which reservations {} use: start with a topology that has it; to remove it, cancel these reservations first; nothing was changed",
    listing(.lacks),
    listing(.reservations)
)]
pub struct TopologyMismatch {
    /// Missing nodes, links and interfaces.
    pub lacks: Vec<String>,
    /// Numbers of the reservations that use the items.
    pub reservations: Vec<u64>,
}
