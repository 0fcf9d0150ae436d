//! What is to be seen of one link.

use lighthaul_gateway::line::Line;
use lighthaul_gateway::status::Sight;

/// One link at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// Whom this gateway has called, or the key of who has called it.
    pub peer: String,
    /// Whether this gateway has called.
    pub is_outgoing: bool,
    /// What it counts.
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

    /// Who began it, as a word.
    pub const fn side(&self) -> &'static str {
        if self.is_outgoing { "caller" } else { "called" }
    }
}
