//! State of one link.

use lighthaul_gateway::link_handle::LinkHandle;
use lighthaul_gateway::status::LinkSnapshot;

/// State of one link at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// Address of the gateway that this gateway connected to, or key of the gateway that connected here.
    pub peer: String,
    /// True if this gateway started the link.
    pub is_outgoing: bool,
    /// Counters of the link.
    pub counters: LinkSnapshot,
}

impl LinkStatus {
    pub(crate) fn of(peer: String, is_outgoing: bool, handle: &LinkHandle) -> Self {
        let counters = handle.status().snapshot();
        Self {
            peer,
            is_outgoing,
            counters,
        }
    }

    /// Returns `caller` if this gateway started the link, otherwise `called`.
    pub const fn side(&self) -> &'static str {
        if self.is_outgoing { "caller" } else { "called" }
    }
}
