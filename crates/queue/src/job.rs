//! A job, its states and its end.

use std::fmt;
use std::path::PathBuf;

/// Number of a job, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobState {
    /// Waits for its time or for other jobs.
    Waiting,
    /// Waits for a worker.
    Queued,
    /// Runs.
    Running,
    /// Ended with success.
    Done,
    /// Ended with a failure.
    Failed,
    /// Ended by its user.
    Canceled,
}

impl JobState {
    /// All states, in their order.
    pub const ALL: [Self; 6] = [
        Self::Waiting,
        Self::Queued,
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Canceled,
    ];

    /// Returns true if the job has ended.
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Canceled)
    }

    /// Returns the state's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }

    pub(crate) const fn number(self) -> i64 {
        self as i64
    }

    pub(crate) fn of_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.number() == number)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Job in a queue. Times are milliseconds since 1970, durations milliseconds.
// fields: one for each column that users see
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Number.
    pub id: JobId,
    /// User who submitted it.
    pub owner: String,
    /// Name that the user chose, or empty.
    pub name: String,
    /// Arguments of the command `lighthaul`.
    pub command: Vec<String>,
    /// Directory in which the command runs.
    pub directory: PathBuf,
    /// Priority; higher first.
    pub priority: i32,
    /// State.
    pub state: JobState,
    /// Starts so far.
    pub attempt: u32,
    /// Failures so far.
    pub failures: u32,
    /// Most retries after failures.
    pub retries: u32,
    /// Earliest start.
    pub not_before: u64,
    /// Latest start.
    pub start_by: Option<u64>,
    /// Period of a recurring job.
    pub every: Option<u64>,
    /// Worker that runs it, or that ran it last.
    pub worker: Option<String>,
    /// True if its user wants it to end.
    pub is_cancel_requested: bool,
    /// Bytes that are done, and all bytes of the transfer.
    pub progress: Option<(u64, u64)>,
    /// Time of its submission.
    pub submitted: u64,
    /// Time of its last start.
    pub started: Option<u64>,
    /// Time of its end.
    pub ended: Option<u64>,
    /// Exit status of its last attempt.
    pub exit: Option<u8>,
    /// Result or failure in one sentence.
    pub text: String,
}

impl Job {
    /// Returns the newest attempt.
    pub const fn attempt(&self) -> Attempt {
        Attempt {
            job: self.id,
            number: self.attempt,
        }
    }
}

/// End of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptEnd {
    /// Kind of the end.
    pub end: JobEnd,
    /// Exit status of the command, if it had one.
    pub exit: Option<u8>,
    /// Result or failure in one sentence.
    pub text: String,
}

/// Kind of the end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// Success.
    Done,
    /// Failure that a retry may mend.
    Retry,
    /// Failure that a retry does not mend.
    Failed,
    /// The worker stopped the attempt, since the user canceled the job.
    Canceled,
    /// The worker stopped the attempt, since the worker ends. The job is queued again.
    Released,
}

/// Attempt that a worker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attempt {
    /// Job.
    pub job: JobId,
    /// Number of the attempt.
    pub number: u32,
}

/// Number of jobs for which a run waits that needs a check by a scheduler. Jobs wait for fewer other jobs.
pub(crate) const HELD: u64 = 1 << 20;
