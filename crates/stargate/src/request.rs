//! Request of a local caller for a path through several domains, and its outcome.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::trc::Trc;

use crate::key::{CorrelationId, DomainId, Hop, PortId};
use crate::offer::Demand;
use crate::record::StoredReservation;
use crate::refusal::Refusal;

/// Request for a path from a port of this domain to a port of any domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Correlation ID. A repeated request with the same one is answered with the same outcome.
    pub id: CorrelationId,
    /// Port of this domain at which the path starts.
    pub ingress: PortId,
    /// Domain in which the path ends.
    pub to: DomainId,
    /// Port of that domain at which the path ends.
    pub egress: PortId,
    /// Amount and rates.
    pub demand: Demand,
    /// Earliest start.
    pub from: Instant,
    /// Deadline of the transfer.
    pub till: Instant,
    /// Domains and links that the path avoids.
    pub excludes: Excludes,
    /// Protection by a second path.
    pub protection: Protection,
    /// Order in which the domains are asked.
    pub signaling: Signaling,
}

/// Domains and links that a path avoids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excludes {
    /// Domains.
    pub domains: BTreeSet<DomainId>,
    /// Links between domains.
    pub links: BTreeSet<PortId>,
}

/// Protection of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// One path.
    #[default]
    None,
    /// Two paths with the same vector, without common links or intermediate domains. Both are committed, or none is. If
    /// one fails later, the other carries on.
    Disjoint,
}

/// Order in which the domains of a path are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signaling {
    /// Each domain asks the next one.
    #[default]
    Chain,
    /// The source domain asks each domain directly, so all of them must be its neighbors.
    Tree,
}

/// Result of a request. The first one is `Committed` or `Refused`, and for a preview `Offered` or `Refused`. A
/// committed request then has one of the others, perhaps after `LegLost`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All domains have committed the vector.
    Committed {
        /// Rates over time.
        vector: Trc,
        /// Continuations of the path in other domains, one list of hops for each leg.
        legs: Vec<Vec<Hop>>,
        /// Time in which an increase carries nothing.
        guard: Duration,
    },
    /// A path with the given vector could be reserved. Nothing is reserved.
    Offered(Box<StoredReservation>),
    /// One leg of a protected path has failed and is released. The other carries the vector.
    LegLost {
        /// Index of the leg.
        leg: u8,
        /// Reason for which the leg was lost.
        refusal: Refusal,
    },
    /// Nothing is reserved.
    Refused(Refusal),
    /// The committed path has failed and is released.
    Failed(Refusal),
    /// The caller has released the path.
    Released,
    /// The vector has ended.
    Ended,
}
