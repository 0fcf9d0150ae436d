//! Events of reservations and queued jobs, as they happen.

use std::task::Poll;
use std::time::Duration;

use lighthaul_booking_client::events::Events as Incoming;
use lighthaul_booking_client::json::{Event, JobEventView};
use lighthaul_remote::scheduler::failed;
use lighthaul_session::error::Error;

use crate::client::Client;

/// Events as they happen. The iterator waits for the next one, and ends after the last event or an error.
///
/// A lost connection is made again, and no event is missed or repeated. After ten minutes without the scheduler, the
/// iterator ends with an error. To continue in another program, keep the `seq` of the last event.
#[derive(Debug)]
pub struct Events<T>(Incoming<T>);

impl Client {
    /// Returns the changes of reservations that the client may see: after the event with the number `after`, or from now
    /// on.
    pub fn reservation_events(&self, after: Option<u64>) -> Result<Events<Event>, Error> {
        let events = self.scheduler()?.follow_reservations(after);
        events.map(Events).map_err(failed)
    }

    /// Returns the events of a queued job until it has ended: after the event with the number `after`, or all for 0.
    pub fn job_events(&self, id: u64, after: u64) -> Result<Events<JobEventView>, Error> {
        let events = self.scheduler()?.follow_job(id, after);
        events.map(Events).map_err(failed)
    }
}

impl<T> Events<T> {
    /// Waits for the next event for `timeout` at most. Returns [`Poll::Pending`] if none has come by then.
    pub fn next_within(&self, timeout: Duration) -> Poll<Option<Result<T, Error>>> {
        let event = self.0.next_within(timeout);
        event.map(|event| event.map(|event| event.map_err(failed)))
    }
}

impl<T> Iterator for Events<T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|event| event.map_err(failed))
    }
}
