//! Calls of users of a service, from any thread.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use lighthaul_stargate::{CorrelationId, IdPrefix, Outcome, Request};

use super::event::Event;
use super::status::{ReservationStatus, Status};
use crate::error::Error;
use crate::random::random_u128;

/// Calls of users of a service. Clones call the same service.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) events: SyncSender<Event>,
    pub(super) requests_max: usize,
}

/// Outcomes of one request.
#[derive(Debug)]
pub struct Ticket {
    /// Correlation ID of the request.
    pub id: CorrelationId,
    outcomes: Receiver<Outcome>,
    requests_max: usize,
}

impl Handle {
    /// Returns a correlation ID that was never used.
    pub fn new_id() -> CorrelationId {
        CorrelationId(random_u128())
    }

    /// Requests a path. A request that is repeated with the same correlation ID has the same outcome.
    pub fn request(&self, request: Request) -> Result<Ticket, Error> {
        let id = request.id;
        self.with_ticket(id, |caller| Event::Request(Box::new(request), caller))
    }

    /// Searches a path and reserves nothing. The outcome is the best offer.
    pub fn preview(&self, request: Request) -> Result<Ticket, Error> {
        let id = request.id;
        self.with_ticket(id, |caller| Event::Preview(Box::new(request), caller))
    }

    /// Waits for further outcomes of a request, for example after a restart of the caller. The ticket of an unknown
    /// request fails.
    pub fn watch(&self, id: CorrelationId) -> Result<Ticket, Error> {
        self.with_ticket(id, |caller| Event::Watch(id, caller))
    }

    /// Releases the path of a request, or stops its search. An unknown request is ignored.
    pub fn release(&self, id: CorrelationId) -> Result<(), Error> {
        self.send(Event::Release(id))
    }

    /// Returns the status.
    pub fn status(&self) -> Result<Status, Error> {
        let (answer, answers) = sync_channel(1);
        self.send(Event::Status(answer))?;
        answers.recv().map_err(|_| Error::Stopped)
    }

    /// Returns the reservations of the path whose ID begins with `prefix`. If there are several such paths, the last
    /// reservation is that of another one.
    pub fn find(&self, prefix: IdPrefix) -> Result<Vec<ReservationStatus>, Error> {
        let (answer, answers) = sync_channel(1);
        self.send(Event::Find(prefix, answer))?;
        answers.recv().map_err(|_| Error::Stopped)
    }

    fn with_ticket(
        &self,
        id: CorrelationId,
        event: impl FnOnce(SyncSender<Outcome>) -> Event,
    ) -> Result<Ticket, Error> {
        let (caller, outcomes) = sync_channel(OUTCOMES_MAX);
        self.send(event(caller))?;
        Ok(Ticket {
            id,
            outcomes,
            requests_max: self.requests_max,
        })
    }

    pub(super) fn send(&self, event: Event) -> Result<(), Error> {
        self.events.send(event).map_err(|_| Error::Stopped)
    }
}

impl Ticket {
    /// Waits at most `patience` for the next outcome. Returns `None` if there is none yet.
    pub fn wait(&self, patience: Duration) -> Result<Option<Outcome>, Error> {
        match self.outcomes.recv_timeout(patience) {
            Ok(outcome) => Ok(Some(outcome)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Error::NoOutcome(self.requests_max)),
        }
    }
}

/// Maximum number of outcomes that a ticket keeps.
const OUTCOMES_MAX: usize = 8;
