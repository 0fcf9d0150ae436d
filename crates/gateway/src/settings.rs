//! What a gateway is told.

use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::{Rate, Size};

use crate::link_handle::LinkHandle;
use crate::target_rules::TargetRules;

/// How a gateway works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where sessions from the other side may go.
    pub allowed: Arc<TargetRules>,
    /// Targets that are near: they are called from here, and sessions with them cross no link.
    pub direct: Arc<TargetRules>,
    /// What the channel to the other side carries; what a probe finds, if nothing.
    pub rate: Option<Rate>,
    /// The channel is booked: it carries what [`LinkHandle::follow`](crate::link_handle::LinkHandle::follow) is told, and a policer takes bursts of a millisecond.
    pub booked: bool,
    /// Memory for all links of one key: half of it for what comes, half for what leaves.
    pub memory: Size,
    /// A slab has at most so much.
    pub slab: Size,
    /// How long bytes wait for a slab to fill while the channel is idle.
    pub age: Duration,
    /// How long sessions outlive their connection.
    pub patience: Duration,
    /// How long a program or target may be silent before its host is asked whether it is still there.
    pub keepalive: Duration,
    /// Sessions at a time of one link, of all links of one key, and of all programs that come in here.
    pub sessions_max: usize,
    /// Links that other gateways may begin.
    pub links: LinkLimits,
    /// Where sessions of other gateways go on whose target is not allowed here.
    pub onward: Option<LinkHandle>,
}

/// Most links that other gateways may have here at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLimits {
    /// Of all of them together.
    pub all: usize,
    /// Of those with one key.
    pub key: usize,
    /// Of those at one address: of IPv4, or a /64 of IPv6.
    pub address: usize,
    /// Memory of all of them together.
    pub memory: Size,
}

impl Settings {
    /// Whether the channel's rate has to be found out.
    pub const fn measures(&self) -> bool {
        self.rate.is_none() && !self.booked
    }
}
