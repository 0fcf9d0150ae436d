//! Quotes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::reservation::Step;
use super::timestamp::Timestamp;

/// Grant that a request would get now. Nothing is booked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Quote {
    /// Links of the path.
    pub path: Vec<String>,
    /// Rates over time.
    pub steps: Vec<Step>,
    /// Promised end.
    pub promised_end: Timestamp,
}
