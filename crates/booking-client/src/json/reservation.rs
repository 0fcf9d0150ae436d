//! Reservations.

use crate::reservation::{ReservationState, Transition, Verb};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::request::NewReservation;
use super::timestamp::Timestamp;

/// Capacity that is or was booked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reservation {
    /// Number of the reservation.
    pub id: u64,
    /// Name of the owner.
    pub owner: String,
    /// State of the reservation.
    #[schema(value_type = String, example = "committed")]
    pub state: ReservationState,
    /// Granted request.
    pub request: NewReservation,
    /// Links of the path.
    pub path: Vec<String>,
    /// Rates over time, one step for each change.
    pub steps: Vec<Step>,
    /// Time by which all data are moved, as promised.
    pub promised_end: Timestamp,
    /// Time at which the reservation expires if it is not committed; absent after the commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_till: Option<Timestamp>,
    /// Time of creation.
    pub created: Timestamp,
    /// Time of the last change.
    pub changed: Timestamp,
    /// Actions on the reservation, oldest first.
    pub journal: Vec<JournalLine>,
    /// Failure, if the reservation has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Rate in a range of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// Start of the step.
    pub from: Timestamp,
    /// End of the step, exclusive.
    pub till: Timestamp,
    /// Rate in bits a second.
    pub rate_bps: u64,
}

/// Action on a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JournalLine {
    /// Time of the action.
    pub at: Timestamp,
    /// Action itself.
    #[schema(value_type = String, example = "commit")]
    pub verb: Verb,
    /// State before.
    #[schema(value_type = String, example = "reserved")]
    pub from: ReservationState,
    /// State after; equal if the reservation was created, resized or moved.
    #[schema(value_type = String, example = "committed")]
    pub to: ReservationState,
    /// User, device or component that acted.
    pub who: String,
    /// Reason of the action.
    pub why: String,
}

impl From<&Transition> for JournalLine {
    fn from(line: &Transition) -> Self {
        Self {
            at: line.at.into(),
            verb: line.verb,
            from: line.from,
            to: line.to,
            who: line.who.clone(),
            why: line.why.clone(),
        }
    }
}
