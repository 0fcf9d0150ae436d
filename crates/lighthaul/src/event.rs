//! Events of a copy, for the program that started it.

use std::time::Duration;

use lighthaul_booking_client::json::{Reservation, Timestamp};
use lighthaul_copy::watch::CopyEvent;
use lighthaul_domains::control::PathView;
use lighthaul_session::error::Error;

/// Event of a copy, in all of its attempts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// Event of the attempt that runs now.
    Copy(CopyEvent),
    /// Route of the data that is not the direct one.
    Routed {
        /// Name of the protocol.
        protocol: String,
        /// Sentence about the route.
        why: String,
    },
    /// An attempt failed, and another follows.
    Retrying {
        /// Failure.
        error: Error,
        /// Time until the next attempt.
        pause: Duration,
        /// Number of attempts that are left.
        left: u32,
    },
    /// A circuit was reserved, or its reservation was moved.
    Booked(Box<Booked>),
    /// The reservation of the circuit has ended.
    Released(Released),
    /// A path across domains was reserved.
    PathReserved(PathView),
    /// The path across domains was released.
    PathReleased(PathView),
    /// Fault that does not end the copy, as a sentence.
    Warning(String),
    /// Note that is no fault, as a sentence.
    Note(String),
}

/// Circuit that a copy has reserved.
#[derive(Clone, Debug)]
pub struct Booked {
    /// Reservation, with times in the scheduler's clock.
    pub reservation: Reservation,
    /// Start of the circuit, by the clock of this host.
    pub start: Timestamp,
    /// Time when all files are in place, by the clock of this host.
    pub complete_by: Timestamp,
    /// The same time, by the clock of the scheduler.
    pub promised_end: Timestamp,
}

/// End of a reservation, with the end of its copy.
#[derive(Clone, Debug)]
pub struct Released {
    /// Number of the reservation.
    pub reservation: u64,
    /// Seconds from the end of the copy to the promised end; negative if the copy was late.
    pub early_s: f64,
    /// Seconds of the circuit that were given back, if the circuit was released.
    pub unused_s: Option<f64>,
    /// End of the reservation.
    pub end: ReservationEnd,
}

/// End of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReservationEnd {
    /// The copy has released the reservation.
    Released,
    /// The last step of the reservation had ended.
    Over,
    /// The release could not be requested from the scheduler, for the given reason.
    Kept(String),
}
