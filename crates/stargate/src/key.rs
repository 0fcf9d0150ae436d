//! Numbers of domains, border points, requests and their parts.

/// Number of a domain, such as its autonomous system number (RFC 6793).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId(pub u32);

/// Number of a border point: a link between two domains, or an access port. NSI calls it a service termination point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

/// Correlation ID of a request: a UUID that the caller chooses and never uses again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CorrelationId(pub u128);

/// Number of a query, unique at its source domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId {
    /// Source domain.
    pub source: DomainId,
    /// Sequence number.
    pub number: u64,
}

/// Number of one reservation: one attempt of a request over one leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Source domain.
    pub source: DomainId,
    /// Request.
    pub id: CorrelationId,
    /// Sequence number of the attempt.
    pub attempt: u8,
    /// Leg: one chain of domains. [`ROOT`] is the source domain itself.
    pub leg: u8,
}

impl Key {
    /// Returns the key of the source domain for the same attempt.
    #[must_use]
    pub const fn root(self) -> Self {
        self.with_leg(ROOT)
    }

    /// Returns the key of another leg of the same attempt.
    #[must_use]
    pub const fn with_leg(self, leg: u8) -> Self {
        Self { leg, ..self }
    }
}

/// Part of a path inside one domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment {
    /// Border point at which the path enters.
    pub ingress: PortId,
    /// Border point at which the path leaves.
    pub egress: PortId,
}

/// Domain of a path, and the part inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// Number of the domain.
    pub domain: DomainId,
    /// Part of the path inside the domain.
    pub segment: Segment,
}

/// Leg number of the source domain.
pub const ROOT: u8 = u8::MAX;
/// Maximum number of domains in a path.
pub const HOPS_MAX: usize = 32;
