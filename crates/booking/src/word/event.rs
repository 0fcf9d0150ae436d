//! What changed, one after another.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::moment::Moment;
use super::reservation::Reservation;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Its number, which is the `Last-Event-ID` of who goes on behind it.
    pub seq: u64,
    /// When.
    pub at: Moment,
    /// What.
    pub kind: Kind,
    /// By whom: a user, a device, or a clock.
    pub who: String,
    /// Why.
    pub why: String,
    /// The reservation as it then was.
    pub reservation: Reservation,
}

/// What happened to a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It was made.
    Reserved,
    /// It went on in its life.
    Changed,
    /// It was made larger or smaller.
    Resized,
    /// It was moved: forward, or out of the way of an outage.
    Moved,
}

impl Kind {
    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Changed => "changed",
            Self::Resized => "resized",
            Self::Moved => "moved",
        }
    }
}
