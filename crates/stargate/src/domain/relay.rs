//! Query that waits for the answer of the next domain.

use lighthaul_base::Instant;

use crate::key::DomainId;
use crate::offer::Offer;

/// Query of a neighbor that waits for the answer of the next domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Relay {
    pub(crate) next: DomainId,
    /// Capacity of this domain.
    pub(crate) offer: Offer,
    pub(crate) till: Instant,
}
