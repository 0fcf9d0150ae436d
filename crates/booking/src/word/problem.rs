//! Why something was not done, as RFC 9457 has it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::amount::Span;
use super::moment::Moment;

/// A problem, with what would work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// What kind it is, for programs.
    #[serde(rename = "type")]
    #[schema(example = "urn:lighthaul:problem:late")]
    pub kind: String,
    /// What kind it is, for people.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, to what, and what to do.
    pub detail: String,
    /// What could be had instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counter_offer: Option<CounterOffer>,
}

/// What could be had instead of what cannot be over in time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CounterOffer {
    /// When all would be over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earliest_end: Option<Moment>,
    /// How many bytes would be over by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_by_then: Option<u64>,
    /// How long it could be held till then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_by_then: Option<Span>,
    /// The lowest `rate_max` with which all would be over by then, in bits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_needed: Option<u64>,
}
