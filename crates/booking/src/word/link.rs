//! The topology, and what is free of a link when.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::moment::Moment;

/// Hosts, switches and what joins them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopologyView {
    /// Names of hosts and switches.
    pub nodes: Vec<String>,
    /// What joins them.
    pub links: Vec<LinkView>,
}

/// One direction of what joins two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkView {
    /// Its name.
    pub name: String,
    /// Where it begins.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// What it carries, in bits a second.
    pub capacity_bps: u64,
    /// What rates on it are multiples of, in bits a second.
    pub channel_bps: u64,
    /// How long a change of rate takes there, in nanoseconds.
    pub guard_ns: u64,
    /// Of two paths that end as early, the one of lower cost is taken.
    pub cost: u32,
    /// Interfaces at which its circuits are made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<String>,
}

/// What is free of a link, and who has the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CalendarView {
    /// Its name.
    pub link: String,
    /// What it carries, in bits a second.
    pub capacity_bps: u64,
    /// What is free, without gaps.
    pub free: Vec<Free>,
    /// Who has what, by their beginning.
    pub allocations: Vec<Allocation>,
}

/// What is free for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Free {
    /// From then on.
    pub from: Moment,
    /// Till then, which is not in it.
    pub till: Moment,
    /// Bits a second.
    pub bps: u64,
}

/// What one reservation has for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Allocation {
    /// The reservation's number.
    pub id: u64,
    /// Whose it is; others are not named to users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// From then on.
    pub from: Moment,
    /// Till then, which is not in it.
    pub till: Moment,
    /// Bits a second.
    pub bps: u64,
}
