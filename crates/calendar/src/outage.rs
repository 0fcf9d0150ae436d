//! Links that will be out.

use lighthaul_base::Instant;

use crate::topology::LinkId;

/// A time in which a link carries nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The link.
    pub link: LinkId,
    /// Its first moment.
    pub from: Instant,
    /// The first moment after it.
    pub till: Instant,
}
