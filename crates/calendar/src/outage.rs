//! Planned outages of links.

use lighthaul_base::Instant;

use crate::topology::LinkId;

/// Time in which a link carries nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The link.
    pub link: LinkId,
    /// Start of the outage.
    pub from: Instant,
    /// End, exclusive.
    pub till: Instant,
}
