//! Settings of a gateway.

use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::{Rate, Size};

use crate::link_handle::LinkHandle;
use crate::target_rules::TargetRules;

/// Settings of a gateway.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Targets that sessions of other gateways may reach.
    pub allowed: Arc<TargetRules>,
    /// Direct targets: this gateway connects to them itself, and their sessions use no link.
    pub direct: Arc<TargetRules>,
    /// Rate of the channel to the other gateway; measured if absent.
    pub rate: Option<Rate>,
    /// True for a booked channel: its rate follows [`LinkHandle::follow`](crate::link_handle::LinkHandle::follow), and
    /// a policer allows bursts of a millisecond.
    pub booked: bool,
    /// Memory for all links of one key: half of it in each direction.
    pub memory: Size,
    /// Maximum size of a slab.
    pub slab: Size,
    /// Maximum time for which bytes wait for a slab to fill while the channel is idle.
    pub age: Duration,
    /// Time for which sessions wait for a new connection of the link.
    pub patience: Duration,
    /// Idle time after which TCP keepalive probes a program or target.
    pub keepalive: Duration,
    /// Maximum number of sessions of a link, of all links of one key, and of all programs of this gateway.
    pub sessions_max: usize,
    /// Limits of links that other gateways start.
    pub links: LinkLimits,
    /// Link for sessions of other gateways whose targets this gateway does not allow.
    pub onward: Option<LinkHandle>,
}

/// Maximum number of links that other gateways may have at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLimits {
    /// Maximum of all gateways together.
    pub all: usize,
    /// Maximum of one key.
    pub key: usize,
    /// Maximum of one IPv4 address, or one IPv6 /64.
    pub address: usize,
    /// Memory of all links together.
    pub memory: Size,
}

impl Settings {
    /// Returns true if the rate of the channel must be measured.
    pub const fn measures(&self) -> bool {
        self.rate.is_none() && !self.booked
    }

    /// Returns the settings of a small gateway.
    #[cfg(test)]
    pub(crate) fn example() -> Self {
        Self {
            allowed: Arc::default(),
            direct: Arc::default(),
            rate: None,
            booked: false,
            memory: Size(1 << 20),
            slab: Size(1 << 16),
            age: Duration::from_millis(1),
            patience: Duration::from_secs(1),
            keepalive: Duration::from_mins(1),
            sessions_max: 9,
            links: LinkLimits {
                all: 1,
                key: 1,
                address: 1,
                memory: Size(1 << 20),
            },
            onward: None,
        }
    }
}
