//! Events about reservations.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::reservation::Reservation;
use super::timestamp::Timestamp;

/// Change of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Number. A client that reconnects sends it as `Last-Event-ID` to get the later events.
    pub seq: u64,
    /// Time of the event.
    pub at: Timestamp,
    /// Kind of change.
    pub kind: EventKind,
    /// User, device or component that made the change.
    pub who: String,
    /// Reason of the change.
    pub why: String,
    /// Reservation after the change.
    pub reservation: Reservation,
}

/// Kind of change of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// Created.
    Reserved,
    /// Changed its state.
    Changed,
    /// Extended or shrunk.
    Resized,
    /// Moved to an earlier time, or because of an outage.
    Moved,
}

impl EventKind {
    /// Returns the name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Changed => "changed",
            Self::Resized => "resized",
            Self::Moved => "moved",
        }
    }
}
