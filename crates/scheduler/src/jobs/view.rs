//! Jobs as JSON.

use std::time::Duration;

use lighthaul_booking_client::json::{
    IsoDuration, JobEventView, JobLogPiece, JobStatus, JobView, Timestamp,
};
use lighthaul_queue::list::{JobEvent, LogPiece};
use lighthaul_queue::secrets::masked_words;
use lighthaul_queue::{Job, JobState, owner};

/// Returns a job as JSON.
pub(super) fn view(job: Job) -> JobView {
    JobView {
        id: job.id.0,
        owner: shown_owner(&job.owner),
        name: job.name,
        state: status(job.state),
        command: masked_words(&job.command),
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

/// Returns the name of an owner as clients know it. Users of hosts begin with `local:`, and clients of the scheduler have
/// their names.
fn shown_owner(stored: &str) -> String {
    match owner::client_of(stored) {
        // a client with such a name must not look like a user
        Some(name)
            if [LOCAL, CLIENT]
                .iter()
                .any(|prefix| name.starts_with(prefix)) =>
        {
            stored.to_owned()
        }
        Some(name) => name.to_owned(),
        None => format!("{LOCAL}{stored}"),
    }
}

/// Returns the owner in the queue for a name that a client knows.
pub(super) fn stored_owner(shown: &str) -> String {
    match (shown.strip_prefix(LOCAL), shown.strip_prefix(CLIENT)) {
        (Some(user), _) => user.to_owned(),
        (None, Some(client)) => owner::of_client(client),
        (None, None) => owner::of_client(shown),
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

/// Begin of the names of users of hosts.
const LOCAL: &str = "local:";
/// Begin of the names of clients, where they would be ambiguous.
const CLIENT: &str = "rest:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_shown_with_their_origin() {
        for (stored, shown) in [
            ("rest:ada", "ada"),
            ("ada", "local:ada"),
            ("rest:local:ada", "rest:local:ada"),
            ("rest:rest:ada", "rest:rest:ada"),
        ] {
            assert_eq!(shown_owner(stored), shown);
            assert_eq!(stored_owner(shown), stored);
        }
    }
}
