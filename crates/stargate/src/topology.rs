//! Published links between domains. It shows no link inside a domain.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::key::{DomainId, PortId};

/// Link from one domain to another, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DomainLink {
    /// Number that both domains use for the border point between them.
    pub port: PortId,
    /// Domain at the start.
    pub from: DomainId,
    /// Domain at the end.
    pub to: DomainId,
    /// Cost for path selection.
    pub cost: u32,
}

/// Published links between domains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    out: BTreeMap<DomainId, Vec<DomainLink>>,
}

impl Topology {
    /// Returns a topology of `links`.
    pub fn new(links: &[DomainLink]) -> Self {
        let mut out: BTreeMap<DomainId, Vec<DomainLink>> = BTreeMap::new();
        for link in links {
            out.entry(link.from).or_default().push(*link);
        }
        Self { out }
    }

    /// Returns all links, by the domain at their start.
    pub fn links(&self) -> impl Iterator<Item = &DomainLink> {
        self.out.values().flatten()
    }

    /// Returns the links that leave a domain.
    pub fn out(&self, domain: DomainId) -> &[DomainLink] {
        self.out.get(&domain).map_or(&[], Vec::as_slice)
    }

    /// Returns true if a link from one domain to another has this border point.
    pub(crate) fn joins(&self, from: DomainId, to: DomainId, port: PortId) -> bool {
        let mut out = self.out(from).iter();
        out.any(|link| link.to == to && link.port == port)
    }

    /// Returns true if any link enters a domain at this border point.
    pub(crate) fn enters(&self, domain: DomainId, port: PortId) -> bool {
        let mut all = self.out.values().flatten();
        all.any(|link| link.to == domain && link.port == port)
    }

    /// Returns true if any link leaves a domain at this border point.
    pub(crate) fn leaves(&self, domain: DomainId, port: PortId) -> bool {
        self.out(domain).iter().any(|link| link.port == port)
    }
}
