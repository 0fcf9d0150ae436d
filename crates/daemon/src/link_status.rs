//! State of one link.

use lighthaul_gateway::line::Line;
use lighthaul_gateway::status::Sight;

/// State of one link at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// Address of the gateway that this one connected to, or key of the gateway that connected here.
    pub peer: String,
    /// True if this gateway started the link.
    pub is_outgoing: bool,
    /// Counters of the link.
    pub sight: Sight,
}

impl LinkStatus {
    pub(crate) fn of(peer: String, is_outgoing: bool, line: &Line) -> Self {
        let sight = line.status().sight();
        Self {
            peer,
            is_outgoing,
            sight,
        }
    }

    /// Returns `caller` if this gateway started the link, else `called`.
    pub const fn side(&self) -> &'static str {
        if self.is_outgoing { "caller" } else { "called" }
    }
}
