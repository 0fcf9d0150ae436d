//! Rates that reservations request.

use std::collections::BTreeMap;

use lighthaul_base::{Instant, Rate};
use lighthaul_stargate::{Key, Segment};

/// Rate of a reservation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) segment: Segment,
    /// Number of the route between the ports.
    pub(super) route: u8,
    pub(super) rate: Rate,
    /// End of the rate.
    pub(super) till: Instant,
}

/// Returns the times at which the last rates of pairs of ports end.
pub(super) fn last_ends(wanted: &BTreeMap<(Key, u8), Wanted>) -> BTreeMap<Segment, Instant> {
    let mut ends = BTreeMap::new();
    for one in wanted.values() {
        let end = ends.entry(one.segment).or_insert(one.till);
        *end = one.till.max(*end);
    }
    ends
}
