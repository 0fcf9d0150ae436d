//! Links of figures, and the calendars on which files are booked.
//!
//! `topology` has links of a hundred channels in both directions, or a single link. `calendar`
//! fails for settings that no calendar has, so that a plan is refused when it is read.

use std::collections::BTreeSet;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_calendar::{Calendar, Config, Link, Owner, Topology};

/// Creates an empty calendar. Fails if slots, shares, paths or links are invalid.
pub(super) fn calendar(
    links: &[[String; 2]],
    (slot, guard): (Duration, Duration),
    shares: [u16; 3],
    paths_max: usize,
) -> Result<Calendar, String> {
    let owners = (0..).map(Owner).zip(shares);
    let config = Config {
        horizon: HORIZON,
        slot,
        paths_max,
        shares: owners.filter(|(_, share)| *share > 0).collect(),
        ..Config::default()
    };
    let topology = try_topology(links, guard)?;
    Calendar::new(topology, config).map_err(|why| why.to_string())
}

/// Creates links of a hundred channels in both directions between nodes, or a single link.
pub fn topology(links: &[[String; 2]], guard: Duration) -> Topology {
    try_topology(links, guard).expect("the links of a parsed plan connect all nodes")
}

fn try_topology(links: &[[String; 2]], guard: Duration) -> Result<Topology, String> {
    let link = |from: &str, to: &str| Link {
        name: format!("{from}-{to}"),
        from: from.into(),
        to: to.into(),
        capacity: Rate::from_mbps(LINK_BPS / 1_000_000),
        channel: Rate::from_mbps(CHANNEL_BPS / 1_000_000),
        guard,
        cost: 1,
    };
    let ways = links.iter().flat_map(|[a, b]| [link(a, b), link(b, a)]);
    let mut all: Vec<Link> = ways.collect();
    if all.is_empty() {
        all.push(link("a", "b"));
    }
    let ends = all
        .iter()
        .flat_map(|link| [link.from.clone(), link.to.clone()]);
    let nodes: BTreeSet<String> = ends.collect();
    Topology::new(nodes.into_iter().collect(), all).map_err(|why| why.to_string())
}

/// Rate of a link (section 3.3.1): a hundred channels of 10 Gb/s.
pub const LINK_BPS: u64 = CHANNELS * CHANNEL_BPS;
/// Channels of a link.
pub(super) const CHANNELS: u64 = 100;
pub(super) const CHANNEL_BPS: u64 = 10_000_000_000;
const HORIZON: Duration = Duration::from_hours(24 * 3650);
