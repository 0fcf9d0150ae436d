//! Jobs as JSON.

use std::time::Duration;

use lighthaul_booking_client::json::{
    IsoDuration, JobEventView, JobLogPiece, JobStatus, JobView, Timestamp,
};
use lighthaul_queue::list::{JobEvent, LogPiece};
use lighthaul_queue::{Job, JobState};

/// Returns a job as JSON.
pub(super) fn view(job: Job) -> JobView {
    JobView {
        id: job.id.0,
        owner: job.owner,
        name: job.name,
        state: status(job.state),
        command: job.command,
        priority: job.priority,
        attempt: job.attempt,
        failures: job.failures,
        retries: job.retries,
        at: time(job.not_before),
        start_by: job.start_by.map(time),
        every: job
            .every
            .map(|every| IsoDuration(Duration::from_millis(every))),
        worker: job.worker,
        cancel_requested: job.is_cancel_requested,
        bytes: job.progress.map(|(done, _)| done),
        bytes_total: job.progress.map(|(_, total)| total),
        submitted: time(job.submitted),
        started: job.started.map(time),
        ended: job.ended.map(time),
        exit: job.exit,
        text: job.text,
    }
}

/// Returns an event as JSON.
pub(super) fn event(event: JobEvent) -> JobEventView {
    JobEventView {
        seq: event.seq,
        at: time(event.time),
        attempt: event.attempt,
        state: status(event.state),
        text: event.text,
    }
}

/// Returns a piece of a log as JSON.
pub(super) fn piece(piece: LogPiece) -> JobLogPiece {
    JobLogPiece {
        attempt: piece.attempt,
        seq: piece.seq,
        text: piece.text,
    }
}

/// Returns the state of the queue.
pub(super) const fn state(status: JobStatus) -> JobState {
    match status {
        JobStatus::Waiting => JobState::Waiting,
        JobStatus::Queued => JobState::Queued,
        JobStatus::Running => JobState::Running,
        JobStatus::Done => JobState::Done,
        JobStatus::Failed => JobState::Failed,
        JobStatus::Canceled => JobState::Canceled,
    }
}

const fn status(state: JobState) -> JobStatus {
    match state {
        JobState::Waiting => JobStatus::Waiting,
        JobState::Queued => JobStatus::Queued,
        JobState::Running => JobStatus::Running,
        JobState::Done => JobStatus::Done,
        JobState::Failed => JobStatus::Failed,
        JobState::Canceled => JobStatus::Canceled,
    }
}

const fn time(millis: u64) -> Timestamp {
    Timestamp(millis.saturating_mul(1_000_000))
}
