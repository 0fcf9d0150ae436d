//! What came of a request.

use lighthaul_circuit::reservation::{State, Transition, Verb};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::moment::Moment;
use super::request::NewReservation;

/// Capacity that is held, promised, in use, or was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reservation {
    /// Its number.
    pub id: u64,
    /// Whose it is.
    pub owner: String,
    /// Where it is in its life.
    #[schema(value_type = String, example = "committed")]
    pub state: State,
    /// What was asked for.
    pub request: NewReservation,
    /// The links that it is on.
    pub path: Vec<String>,
    /// When it has how much, one step for each rate.
    pub steps: Vec<Step>,
    /// When all will be over.
    pub promised_end: Moment,
    /// Who does not commit till then loses it; nothing once it is committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_till: Option<Moment>,
    /// When it was made.
    pub created: Moment,
    /// When it last changed.
    pub changed: Moment,
    /// What was done with it, the oldest first.
    pub journal: Vec<JournalLine>,
    /// What broke, if something did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A rate, and when it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// From then on.
    pub from: Moment,
    /// Till then, which is not in it.
    pub till: Moment,
    /// Bits a second.
    pub rate_bps: u64,
}

/// What was done with a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JournalLine {
    /// When.
    pub at: Moment,
    /// What.
    #[schema(value_type = String, example = "commit")]
    pub verb: Verb,
    /// From which state.
    #[schema(value_type = String, example = "reserved")]
    pub from: State,
    /// To which; the same, if it was made, changed in size or moved.
    #[schema(value_type = String, example = "committed")]
    pub to: State,
    /// By whom: a user, a device, or a clock.
    pub who: String,
    /// Why.
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
