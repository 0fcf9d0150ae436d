//! All errors of the scheduler.

use std::io;

use lighthaul_base::Instant;
use lighthaul_booking_client::json::Timestamp;
use lighthaul_booking_client::reservation::{BrokenJournal, Illegal};
use lighthaul_calendar::{Refusal, Rounding};
use lighthaul_circuit::error as circuit;

use super::limit_error::{OverlapError, PolicyError, QuotaError};
use super::request_error::{RequestError, UnknownLink};
use super::setup_error::SetupError;
use super::store_error::StoreError;

/// Error of the scheduler. A failed call changes nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request cannot be granted in any state of the scheduler.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The calendar refused the request.
    #[error("{}", .0.with_times(whole_second))]
    Refused(#[from] Refusal),
    /// The state of the reservation does not permit the action.
    #[error(transparent)]
    Transition(#[from] Illegal),
    /// The request exceeds the quota of the owner.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// The policy of the owner does not permit the request.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The request conflicts with other circuits.
    #[error(transparent)]
    Overlap(#[from] OverlapError),
    /// The object does not exist, or belongs to another owner.
    #[error("you have no {what} {id}: list the existing ones")]
    NotFound {
        /// Type of the object.
        what: &'static str,
        /// Number of the object.
        id: u64,
    },
    /// The topology has no link of this name.
    #[error(transparent)]
    UnknownLink(#[from] UnknownLink),
    /// The action needs another role.
    #[error("{name} may not {action}: ask an operator")]
    Forbidden {
        /// Name of the identity.
        name: String,
        /// Action that the client may not perform.
        action: &'static str,
    },
    /// Events that a client has not read are no longer kept.
    #[error(
        "events after number {after} are no longer kept: read the reservations again, and follow the events from now on"
    )]
    EventsDropped {
        /// Number of the last event that the client has read.
        after: u64,
    },
    /// The idempotency key was used for another request.
    #[error("the idempotency key {0} was used for another request: give each request a unique key")]
    KeyReused(String),
    /// Another instance is the writer.
    #[error("another instance is the writer: send the request to {url}")]
    OtherWriter {
        /// URL of that instance.
        url: String,
    },
    /// The settings of the scheduler are wrong.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The database cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An operation of the system failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Result of an operation of the scheduler.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns the error for a reservation that does not exist, or that the client may not see.
    pub(crate) const fn no_reservation(id: u64) -> Self {
        let what = "reservation";
        Self::NotFound { what, id }
    }
}

/// Formats a time in whole seconds.
fn whole_second(at: Instant, rounding: Rounding) -> String {
    let at = Timestamp::from(at);
    let at = match rounding {
        Rounding::Earlier => at.second_before(),
        Rounding::Later => at.second_after(),
    };
    at.to_string()
}

impl From<BrokenJournal> for Error {
    fn from(why: BrokenJournal) -> Self {
        StoreError::Journal(why).into()
    }
}

impl From<serde_json::Error> for Error {
    fn from(why: serde_json::Error) -> Self {
        StoreError::Document(why.to_string()).into()
    }
}

impl From<circuit::Error> for Error {
    fn from(why: circuit::Error) -> Self {
        SetupError::Device(why).into()
    }
}
