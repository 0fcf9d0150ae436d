//! Faults of a queue.

use std::path::PathBuf;

#[cfg(feature = "postgres")]
use lighthaul_database::ServerError;
use lighthaul_database::{DatabaseUrlError, ServerFault};

use crate::job::{JobId, JobState};

/// Result of the work with a queue.
pub type Result<T> = std::result::Result<T, Error>;

/// Fault of a queue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that is no database.
    #[error("cannot use the queue {}: the file is damaged or not an SQLite database ({why}); name another file with --queue", path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// A file that a newer version has written.
    #[error("cannot use the queue {}: its format is {found}, and this version reads only {supported}; update lighthaul", path.display())]
    Newer {
        /// Path of the file.
        path: PathBuf,
        /// Format of the file.
        found: i32,
        /// Format that this version reads.
        supported: i32,
    },
    /// A file that an earlier version has written.
    #[error("cannot use the queue {}: its format is {found}, and this version uses {supported}; end its jobs with the earlier version, and move the file away", path.display())]
    Older {
        /// Path of the file.
        path: PathBuf,
        /// Format of the file.
        found: i32,
        /// Format that this version uses.
        supported: i32,
    },
    /// A database of another program.
    #[error("cannot use the queue {}: it is a database of another program; name another file with --queue", .0.display())]
    Foreign(PathBuf),
    /// A file that does not exist.
    #[error("no job was submitted yet: the queue {} does not exist", .0.display())]
    Missing(PathBuf),
    /// A file that cannot be read or written.
    #[error("cannot {action} the queue {}: {why}", path.display())]
    Failed {
        /// Verb of the failed action.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// A file on a full disk.
    #[error("cannot {action} the queue {}: disk full; free space there, and run the same command again", path.display())]
    DiskFull {
        /// Verb of the failed action.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
    },
    /// A file that another process locks for too long.
    #[error("cannot {action} the queue {}: another process has locked it; run the same command again", path.display())]
    Busy {
        /// Verb of the failed action.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
    },
    /// A change whose answer was lost.
    #[error(
        "it is not known whether the change of the queue was stored ({0}); look with `lighthaul jobs` before you repeat it"
    )]
    Unsure(String),
    /// An action at a server that failed.
    #[error("cannot {action} the PostgreSQL server of the queue: {why}; {}", .fault.remedy())]
    Server {
        /// Verb of the failed action.
        action: &'static str,
        /// Message of the server.
        why: String,
        /// Fault.
        fault: ServerFault,
    },
    /// A URL of a server that is wrong.
    #[error("cannot use the queue: {0}")]
    Url(#[from] DatabaseUrlError),
    /// A server with tables of another version.
    #[error(
        "cannot use the queue: its format is {found}, and this version uses {supported}; {}",
        if *found > i64::from(*supported) { "update lighthaul" } else { "end its jobs with the earlier version, and name another database or search_path" }
    )]
    ServerFormat {
        /// Format of the tables.
        found: i64,
        /// Format that this version uses.
        supported: i32,
    },
    /// A value of a wrong type in a column of a result.
    #[error(
        "the queue is damaged: column {0} of a result has a wrong value; restore it from a backup"
    )]
    Value(usize),
    /// A job that does not exist.
    #[error("no job has the number {0}; `lighthaul jobs --all` lists them")]
    Unknown(JobId),
    /// A job that has ended already.
    #[error("job {0} is {1} already")]
    Ended(JobId, JobState),
    /// A job that has not ended.
    #[error("job {0} is {1}: only a failed or canceled job can be retried")]
    NotFailed(JobId, JobState),
    /// A job that waits for a job which failed.
    #[error("a job cannot wait for job {0}, which is {1}")]
    Dead(JobId, JobState),
    /// A request whose key was used for another request.
    #[error("the idempotency key {0} was used for another job: use a new key for each job")]
    KeyReused(String),
    /// An owner with too many jobs.
    #[error(
        "{owner} has {open_max} jobs that have not ended, the most of an owner: wait, or cancel some"
    )]
    Quota {
        /// Owner.
        owner: String,
        /// Most jobs of an owner that have not ended.
        open_max: u64,
    },
    /// A specification beyond a limit.
    #[error("{0}")]
    Limit(&'static str),
    /// A program that cannot be started.
    #[error("cannot start {}: {why}", program.display())]
    Program {
        /// Path of the program.
        program: PathBuf,
        /// Reason.
        why: String,
    },
}

impl Error {
    /// Returns the fault of an action at a server.
    #[cfg(feature = "postgres")]
    pub(crate) fn server(action: &'static str, error: ServerError) -> Self {
        Self::Server {
            action,
            why: error.why,
            fault: error.fault,
        }
    }

    /// Returns true if another transaction was in the way, and the same transaction may succeed now.
    pub(crate) const fn is_conflict(&self) -> bool {
        matches!(
            self,
            Self::Server {
                fault: ServerFault::Conflict,
                ..
            }
        )
    }

    /// Returns true if the connection to a server was lost, so that a repetition may succeed soon.
    pub const fn is_lost(&self) -> bool {
        self.is_away() || matches!(self, Self::Unsure(_))
    }

    /// Returns true if the server cannot be reached.
    pub(crate) const fn is_away(&self) -> bool {
        matches!(
            self,
            Self::Server {
                fault: ServerFault::Away,
                ..
            }
        )
    }

    /// Returns true if the same fault meets each further change for now.
    pub(crate) const fn is_of_all(&self) -> bool {
        self.is_away() || matches!(self, Self::Busy { .. } | Self::DiskFull { .. })
    }

    /// Returns true if the database may be used again later, without a change of settings.
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::DiskFull { .. } | Self::Busy { .. } | Self::Unsure(_) => true,
            Self::Server { fault, .. } => fault.may_pass(),
            Self::Damaged { .. }
            | Self::Newer { .. }
            | Self::Older { .. }
            | Self::Foreign(_)
            | Self::Missing(_)
            | Self::Failed { .. }
            | Self::Url(_)
            | Self::ServerFormat { .. }
            | Self::Value(_)
            | Self::Unknown(_)
            | Self::Ended(..)
            | Self::NotFailed(..)
            | Self::Dead(..)
            | Self::KeyReused(_)
            | Self::Quota { .. }
            | Self::Limit(_)
            | Self::Program { .. } => false,
        }
    }

    /// Returns true if a database that has worked before may work again later: a server that is being restored refuses
    /// passwords, a disk with errors is mounted again.
    pub const fn may_pass_again(&self) -> bool {
        self.may_pass() || matches!(self, Self::Failed { .. } | Self::Server { .. })
    }

    /// Returns true if the database is at fault, and not the request.
    pub const fn is_of_database(&self) -> bool {
        match self {
            Self::Damaged { .. }
            | Self::Newer { .. }
            | Self::Older { .. }
            | Self::Foreign(_)
            | Self::Missing(_)
            | Self::Failed { .. }
            | Self::DiskFull { .. }
            | Self::Busy { .. }
            | Self::Unsure(_)
            | Self::Server { .. }
            | Self::Url(_)
            | Self::ServerFormat { .. }
            | Self::Value(_) => true,
            Self::Unknown(_)
            | Self::Ended(..)
            | Self::NotFailed(..)
            | Self::Dead(..)
            | Self::KeyReused(_)
            | Self::Quota { .. }
            | Self::Limit(_)
            | Self::Program { .. } => false,
        }
    }
}
