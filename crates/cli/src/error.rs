//! Faults of commands.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use lighthaul_monitor::history::HistoryError;
use lighthaul_queue::Error as QueueError;
use lighthaul_session::error::{Code, Coded, Error};

/// Fault of a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// Options, places or settings files that cannot be used, or contradict each other.
    #[error("{0}")]
    Usage(Cow<'static, str>),
    /// A standard stream that is closed.
    #[error("standard input or output is not open: {0}")]
    NotOpen(io::Error),
    /// A line of a list of copies that a scheduler refuses.
    #[error("copies of the list are queued up to line {line}, which is not: {why}")]
    Line {
        /// Number of the line.
        line: usize,
        /// Reason.
        why: Error,
    },
    /// A list of files that cannot be read.
    #[error("cannot read the list of files: {0}")]
    List(io::Error),
    /// A directory or program of this process that cannot be found.
    #[error("cannot find the present directory: {0}")]
    Directory(io::Error),
    /// A queue of jobs.
    #[error(transparent)]
    Queue(lighthaul_queue::Error),
    /// Jobs that were not changed.
    #[error("{failed} of {all} jobs were not changed: {whys}")]
    Jobs {
        /// Number of failures.
        failed: usize,
        /// Number of jobs.
        all: usize,
        /// Failures.
        whys: String,
    },
    /// A wait that failed.
    #[error("cannot wait: {0}")]
    Wait(io::Error),
    /// A status of a gateway that does not parse.
    #[error("the status of the gateway is malformed")]
    Status,
    /// Stored samples that cannot be read or written.
    #[error(transparent)]
    History(HistoryError),
    /// No key of a daemon.
    #[error(
        "no daemon of this user has a key yet ({} is missing): ask root for `lighthaul key --host`, or start `lighthaul serve`",
        .0.display()
    )]
    NoKey(PathBuf),
    /// Another key is known for a host.
    #[error(
        "{host} is known by {known} already: compare {key} with `lighthaul key --host` there, then add --replace"
    )]
    OtherKey {
        /// Name of the host.
        host: String,
        /// Known key.
        known: String,
        /// Given key.
        key: String,
    },
    /// An address on which the daemon cannot listen.
    #[error("cannot listen on {address}: {why}")]
    Listen {
        /// Address of the listener.
        address: String,
        /// Error of the system.
        why: String,
    },
    /// A copy that ended at the time that the user gave.
    #[error("stopped at the time of --stop-at; the same command resumes the copy")]
    StopTime,
    /// A copy that was interrupted, and the command that resumes it.
    #[error("interrupted; arrived data is kept, and this command resumes: {0}")]
    Interrupted(String),
    /// A refused reservation, whose copy would end later than its data.
    #[error(
        "{refused} (verification needs {epilogue:.1} s more{})",
        deadline.as_ref().map_or_else(String::new, |by| format!(": use --deadline {by}"))
    )]
    LateEnd {
        /// Answer of the scheduler.
        refused: Error,
        /// Seconds from the end of the data to the end of the copy.
        epilogue: f64,
        /// Earliest deadline that the copy can meet, in the format of the command line.
        deadline: Option<String>,
    },
    /// Reservations that were not canceled.
    #[error("{failed} of {all} reservations were not canceled: {whys}")]
    NotCanceled {
        /// Kind of the first failure.
        code: Code,
        /// Number of failures.
        failed: usize,
        /// Number of reservations.
        all: usize,
        /// Failures, each with its reservation.
        whys: String,
    },
}

impl Coded for Fault {
    fn code(&self) -> Code {
        match self {
            Self::Usage(_)
            | Self::Jobs { .. }
            | Self::Queue(
                QueueError::Unknown(_)
                | QueueError::Ended(..)
                | QueueError::NotFailed(..)
                | QueueError::Dead(..)
                | QueueError::Limit(_)
                | QueueError::Url(_),
            ) => Code::Usage,
            Self::NotOpen(_)
            | Self::List(_)
            | Self::Wait(_)
            | Self::Directory(_)
            | Self::Queue(
                QueueError::Failed { .. }
                | QueueError::DiskFull { .. }
                | QueueError::Busy { .. }
                | QueueError::Unsure(_)
                | QueueError::Server { .. },
            )
            | Self::History(HistoryError::Failed { .. }) => Code::Io,
            Self::Status => Code::Protocol,
            Self::Queue(_) | Self::NoKey(_) | Self::History(_) => Code::Open,
            Self::OtherKey { .. } => Code::Permission,
            Self::Listen { .. } => Code::Network,
            Self::StopTime => Code::TimedOut,
            Self::Interrupted(_) => Code::Interrupted,
            Self::LateEnd { .. } => Code::Refused,
            Self::NotCanceled { code, .. } => *code,
            Self::Line { why, .. } => why.code(),
        }
    }
}

/// Returns the error for invalid arguments.
pub(crate) fn usage(text: impl Into<Cow<'static, str>>) -> Error {
    Fault::Usage(text.into()).into()
}
