//! Faults of a queue.

use std::path::{Path, PathBuf};

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
    #[error("job {0} cannot wait for job {1}, which is {2}")]
    Dead(JobId, JobId, JobState),
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

/// Returns the fault of an action on the file at `path`.
pub(crate) fn failed(action: &'static str, path: &Path, why: &rusqlite::Error) -> Error {
    let path = path.to_owned();
    match why.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
            Error::Damaged {
                path,
                why: why.to_string(),
            }
        }
        Some(rusqlite::ErrorCode::DiskFull) => Error::Failed {
            action,
            path,
            why: "disk full; free space there, and run the same command again".to_owned(),
        },
        _ => Error::Failed {
            action,
            path,
            why: why.to_string(),
        },
    }
}
