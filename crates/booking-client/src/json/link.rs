//! Topology, and calendars of links.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::timestamp::Timestamp;

/// Topology of the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopologyView {
    /// Names of hosts and switches.
    pub nodes: Vec<String>,
    /// Links.
    pub links: Vec<LinkView>,
}

/// Link: one direction between two nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkView {
    /// Name of the link.
    pub name: String,
    /// Source node.
    pub from: String,
    /// Target node.
    pub to: String,
    /// Capacity in bits a second.
    pub capacity_bps: u64,
    /// Unit of rates in bits a second.
    pub channel_bps: u64,
    /// Guard time after a change of rate in nanoseconds.
    pub guard_ns: u64,
    /// Cost for path selection; among paths with equal ends the cheapest is used.
    pub cost: u32,
    /// Interfaces at which circuits over the link are made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<String>,
}

/// Free and booked capacity of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CalendarView {
    /// Name of the link.
    pub link: String,
    /// Capacity in bits a second.
    pub capacity_bps: u64,
    /// Free capacity, without gaps in time.
    pub free: Vec<Free>,
    /// Booked capacity, in order of start.
    pub allocations: Vec<Allocation>,
}

/// Free capacity in a range of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Free {
    /// Start of the interval.
    pub from: Timestamp,
    /// End, exclusive.
    pub till: Timestamp,
    /// Free rate in bits a second.
    pub bps: u64,
}

/// Capacity of one reservation in a range of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Allocation {
    /// Number of the reservation.
    pub id: u64,
    /// Owner; present only if the client may see the reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Start of the allocation.
    pub from: Timestamp,
    /// End, exclusive.
    pub till: Timestamp,
    /// Rate in bits a second.
    pub bps: u64,
}
