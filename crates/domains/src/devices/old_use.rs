//! Capacity of links that circuits from before the start may use: until they are known, and until they are removed.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_base::Rate;
use lighthaul_stargate::Segment;

use super::shared_link::SharedLink;

/// Circuits from before the start, by their interfaces.
#[derive(Debug, Default)]
pub(super) struct OldUse {
    /// Interfaces whose circuits are not known yet: the highest rate of all, and their pairs of ports.
    unknown: BTreeMap<String, (Rate, BTreeSet<Segment>)>,
    /// Circuits that an interface still has, with their rates in b/s.
    left: BTreeMap<String, Vec<(OldPlace, u64)>>,
}

/// Links that a circuit from before the start may cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OldPlace {
    /// Those of all routes between two ports.
    Routes(Segment),
    /// Any link, since the ports are no longer configured.
    Anywhere,
}

impl OldUse {
    /// Counts the highest rate of an interface until its circuits are known.
    pub(super) fn expect(&mut self, interface: &str, most: Rate, segments: BTreeSet<Segment>) {
        self.unknown.insert(interface.to_owned(), (most, segments));
    }

    /// Notes the circuits that an interface still has.
    pub(super) fn know(&mut self, interface: &str, left: Vec<(OldPlace, u64)>) {
        self.unknown.remove(interface);
        self.left.insert(interface.to_owned(), left);
    }

    /// Returns the capacity of a link that these circuits may use.
    pub(super) fn in_use(&self, link: &SharedLink) -> u64 {
        let unknown = self.unknown.values();
        let unknown = unknown.filter(|(_, segments)| segments.iter().any(|one| link.carries(*one)));
        let unknown = unknown.map(|(most, _)| most.as_bps());
        let left = self.left.values().flatten();
        let left = left.filter(|(place, _)| place.is_on(link));
        let left = left.map(|(_, bps)| *bps);
        unknown.chain(left).fold(0, u64::saturating_add)
    }
}

impl OldPlace {
    /// Returns true if a circuit may cross the link.
    pub(super) fn is_on(self, link: &SharedLink) -> bool {
        match self {
            Self::Routes(segment) => link.carries(segment),
            Self::Anywhere => true,
        }
    }
}
