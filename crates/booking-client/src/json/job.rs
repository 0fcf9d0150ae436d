//! Jobs: queued copies between places that a worker can reach.

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::amount::{Bps, IsoDuration};
use super::timestamp::Timestamp;

/// Copy to queue. It has no command line, so that it can name no option of the worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default, expecting = "an object")]
// fields: message of the REST interface, one for each property
pub struct NewJob {
    /// Sources: URLs of daemons and object stores, as in `lh://far/results`.
    #[schema(example = json!(["lh://near.example.org/results"]))]
    pub sources: Vec<String>,
    /// Target: URL of a daemon or an object store.
    #[schema(example = "lh://far.example.org/archive/")]
    pub target: String,
    /// Options of the copy.
    #[serde(deserialize_with = "CopyOptions::read")]
    pub options: CopyOptions,
    /// Name, shown in lists; at most 200 bytes.
    pub name: String,
    /// Priority: higher values start first; above 0 only for operators [default: 0].
    pub priority: i32,
    /// Numbers of jobs that must be done first. The job fails if one of them fails.
    pub after: Vec<u64>,
    /// Earliest start [default: now].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Latest start, after which the job fails [default: none].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_by: Option<Timestamp>,
    /// Interval at which the job is repeated [default: once].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<IsoDuration>,
    /// Most retries after failures that may pass [default: 10].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
}

/// Options of a queued copy, with the meanings of `lighthaul cp`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default, expecting = "an object")]
#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
pub struct CopyOptions {
    /// Delete target files that the source does not have.
    pub delete: bool,
    /// Skip files that are newer at the target.
    pub update: bool,
    /// Compare by content, not by size and time.
    pub checksum: bool,
    /// Preserve all metadata, owner and group too.
    pub archive: bool,
    /// Patterns of files to exclude, with the rules of rsync.
    pub exclude: Vec<String>,
    /// Rate on the wire [default: measured].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Bps>,
    /// Book bandwidth for the copy and wait for it. The worker books, as its settings name the scheduler and the hosts.
    pub book: bool,
    /// With `book`, finish by this time. If that is not possible, nothing is booked, and the job fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Timestamp>,
}

impl CopyOptions {
    /// Reads an object. An array would otherwise be read as the fields in their order.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Map::<String, Value>::deserialize(deserializer)?;
        serde_json::from_value(Value::Object(read)).map_err(de::Error::custom)
    }
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Waits for its time, for a retry, or for other jobs.
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

impl JobStatus {
    /// All states, in their order.
    pub const ALL: [Self; 6] = [
        Self::Waiting,
        Self::Queued,
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Canceled,
    ];

    /// Returns the name in JSON.
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

    /// Returns true if the job has ended.
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Canceled)
    }
}

/// Queued copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
// fields: message of the REST interface, one for each property
pub struct JobView {
    /// Number of the job.
    pub id: u64,
    /// Name of the owner: a client of the scheduler, or `local:` and the name of a user of a host.
    pub owner: String,
    /// Name that the owner chose, or empty.
    pub name: String,
    /// State of the job.
    pub state: JobStatus,
    /// Words of the copy command that a worker runs.
    pub command: Vec<String>,
    /// Priority; higher values start first.
    pub priority: i32,
    /// Starts so far.
    pub attempt: u32,
    /// Failures so far.
    pub failures: u32,
    /// Most retries after failures.
    pub retries: u32,
    /// Earliest start.
    pub at: Timestamp,
    /// Latest start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_by: Option<Timestamp>,
    /// Interval at which the job is repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<IsoDuration>,
    /// Worker that runs the job, or that ran it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// True if the job is being stopped.
    pub cancel_requested: bool,
    /// Bytes that are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// All bytes of the copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_total: Option<u64>,
    /// Time of the submission.
    pub submitted: Timestamp,
    /// Time of the last start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// Time of the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Exit status of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<u8>,
    /// Result or failure in one sentence, or empty.
    pub text: String,
}

/// Part of a list of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobPage {
    /// Jobs, the newest first.
    pub items: Vec<JobView>,
    /// Value of `before` in the request for the next part; absent in the last part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Change of a job in its history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobEventView {
    /// Number within the job, from 1.
    pub seq: u64,
    /// Time of the event.
    pub at: Timestamp,
    /// Number of the attempt; 0 before the first.
    pub attempt: u32,
    /// State that the job entered.
    pub state: JobStatus,
    /// Reason, or empty.
    pub text: String,
}

/// Piece of a job's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobLogPiece {
    /// Attempt that wrote it.
    pub attempt: u32,
    /// Number within the attempt, from 1.
    pub seq: u64,
    /// Lines of text.
    pub text: String,
}
