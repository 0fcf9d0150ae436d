//! Links that several circuits share, and the rates of circuits on their routes.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_base::Rate;
use lighthaul_stargate::Segment;

/// Link that several circuits share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedLink {
    /// Name.
    pub name: String,
    /// Capacity.
    pub capacity: Rate,
    /// Pairs of ports, and numbers of the routes between them that cross it.
    pub routes: BTreeSet<(Segment, u8)>,
}

/// Rates of a circuit in b/s, by the routes of its reservations.
pub(super) type RouteRates = BTreeMap<u8, u64>;

/// Returns the rate of a circuit, the sum of those of its routes.
pub(super) fn sum_of(rates: &RouteRates) -> u64 {
    rates.values().fold(0, |sum, bps| bps.saturating_add(sum))
}

impl SharedLink {
    /// Returns true if a route between the ports of a circuit crosses the link.
    pub(super) fn carries(&self, segment: Segment) -> bool {
        let mut routes = self.routes.range((segment, 0)..=(segment, u8::MAX));
        routes.next().is_some()
    }

    /// Returns the part of the rates of a circuit that crosses the link.
    pub(super) fn rate(&self, segment: Segment, rates: &RouteRates) -> u64 {
        let crossing = rates.iter();
        let crossing = crossing.filter(|(route, _)| self.routes.contains(&(segment, **route)));
        crossing.fold(0, |sum, (_, bps)| bps.saturating_add(sum))
    }
}
