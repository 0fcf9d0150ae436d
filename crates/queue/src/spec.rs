//! Specification of a job, which a client submits.

use std::path::PathBuf;

use crate::job::JobId;

/// Job that a client submits. Times are milliseconds since 1970, durations milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobSpec {
    /// User who submits the job.
    pub owner: String,
    /// Name that the user chose, or empty.
    pub name: String,
    /// Arguments of the command `lighthaul`, without its name.
    pub command: Vec<String>,
    /// Directory in which the command runs.
    pub directory: PathBuf,
    /// Priority; higher first.
    pub priority: i32,
    /// Jobs that must be done first. The job fails if one of them fails or is canceled.
    pub after: Vec<JobId>,
    /// Earliest start.
    pub not_before: u64,
    /// Latest start, after which the job fails.
    pub start_by: Option<u64>,
    /// Period of a recurring job.
    pub every: Option<u64>,
    /// Most retries after failures.
    pub retries: u32,
}

/// Request that submits a job, which its client may repeat after a lost answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Key that the client chose, if any.
    pub key: Option<String>,
    /// Digest of the request. A repetition has the same.
    pub digest: String,
    /// Most jobs of the owner that have not ended; `u64::MAX` for any number.
    pub open_max: u64,
}

/// Key of a request that changes a job. A repeated request with the same key changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestKey<'a> {
    /// Client that has chosen the key.
    pub owner: &'a str,
    /// Key.
    pub key: &'a str,
}
