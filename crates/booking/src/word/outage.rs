//! When a link is out.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::moment::Moment;

/// An outage that is planned, or has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewOutage {
    /// Which link.
    pub link: String,
    /// From then on; now, if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Moment>,
    /// Till then.
    pub till: Moment,
    /// Why, for those whose reservations it moves.
    #[serde(default)]
    pub why: String,
}

/// An outage, and what it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutageView {
    /// Its number.
    pub id: u64,
    /// Which link.
    pub link: String,
    /// From then on.
    pub from: Moment,
    /// Till then.
    pub till: Moment,
    /// Reservations that found another time or path.
    pub moved: Vec<u64>,
    /// Reservations for which there is none, which have failed.
    pub failed: Vec<u64>,
}
