//! Published links between domains. It shows no link inside a domain.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::key::{DomainId, PortId};

/// Link from one domain to another, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DomainLink {
    /// Number that both domains use for their border point.
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
    /// Returns a topology of these links.
    pub fn new(links: &[DomainLink]) -> Self {
        let mut out: BTreeMap<DomainId, Vec<DomainLink>> = BTreeMap::new();
        for link in links {
            out.entry(link.from).or_default().push(*link);
        }
        Self { out }
    }

    /// Returns the links that leave a domain.
    pub fn out(&self, domain: DomainId) -> &[DomainLink] {
        self.out.get(&domain).map_or(&[], Vec::as_slice)
    }
}
