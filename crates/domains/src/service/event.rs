//! Events for the thread of the machine.

use std::sync::mpsc::SyncSender;

use lighthaul_stargate::{CorrelationId, DomainId, IdPrefix, Key, Message, Outcome, Request};

use super::places::Place;
use super::status::{ReservationStatus, Status};

/// Event for the thread of the machine.
#[derive(Debug)]
pub(super) enum Event {
    /// Message of an authenticated neighbor, and its place in the queue.
    Message(DomainId, Message, Place),
    /// Request of a caller, and the receiver of its outcomes.
    Request(Box<Request>, SyncSender<Outcome>),
    /// Preview for a caller, and the receiver of its outcome.
    Preview(Box<Request>, SyncSender<Outcome>),
    /// Caller that waits for further outcomes of a request.
    Watch(CorrelationId, SyncSender<Outcome>),
    /// Release of a request.
    Release(CorrelationId),
    /// Fault of a device at a segment of a reservation.
    DeviceFault(Key, u8),
    /// Message of a thread that has ended by a panic.
    Panicked(String),
    /// Question for the status.
    Status(SyncSender<Status>),
    /// Question for the reservations of a path: see [`super::Handle::find`].
    Find(IdPrefix, SyncSender<Vec<ReservationStatus>>),
    /// End of the service.
    Stop,
}
