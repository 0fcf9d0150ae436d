//! Errors as JSON (RFC 9457).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::amount::IsoDuration;
use super::timestamp::Timestamp;

/// Error, and a request that would be granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// URN of the fault, for programs.
    #[serde(rename = "type")]
    #[schema(example = "urn:lighthaul:problem:late")]
    pub kind: String,
    /// Short description of the fault.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// Fault, affected object, and remedy.
    pub detail: String,
    /// Requests that would be granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counter_offer: Option<CounterOffer>,
}

/// Requests that would be granted instead of a request that misses its deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CounterOffer {
    /// Earliest end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earliest_end: Option<Timestamp>,
    /// Largest size in bytes that ends by the deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_by_then: Option<u64>,
    /// Longest holding time that ends by the deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_by_then: Option<IsoDuration>,
    /// Lowest `rate_max` in bits a second that ends by the deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_needed: Option<u64>,
}
