//! Planned outages of links.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::timestamp::Timestamp;

/// Outage to plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct NewOutage {
    /// Name of the link.
    pub link: String,
    /// Start [default: now].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// End, exclusive.
    pub till: Timestamp,
    /// Reason, for the journals of reservations that the outage moves.
    #[serde(default)]
    pub why: String,
}

/// Outage, and the reservations that it affected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutageView {
    /// Number of the outage.
    pub id: u64,
    /// Name of the link.
    pub link: String,
    /// Start of the outage.
    pub from: Timestamp,
    /// End, exclusive.
    pub till: Timestamp,
    /// Reservations that were moved to another time or path.
    pub moved: Vec<u64>,
    /// Reservations that failed, because no other time or path was free.
    pub failed: Vec<u64>,
}
