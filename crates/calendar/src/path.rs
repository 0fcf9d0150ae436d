//! Paths over links, and the k shortest loopless paths (Yen 1971).
//!
//! A [`Path`] is a list of consecutive links with the limits of all of them: unit and maximum of
//! rates, and guard time. [`Path::through`] adds the limits of the interface that makes the
//! circuit. [`shortest`] returns the first paths by cost, then by number of links, with the same
//! result in each run. It ignores free capacity, which the plan of a request checks on each path.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::Rate;

use crate::counted;
use crate::topology::{LinkId, NodeId, Topology};

/// Consecutive links, and the limits of the whole path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    links: Vec<LinkId>,
    /// Unit of rates on the path, in bits a second.
    pub(crate) channel: u64,
    /// Capacity of the narrowest link, rounded down to the channel, in bits a second.
    pub(crate) capacity: u64,
    /// Guard time in nanoseconds, in which an increase carries nothing.
    pub(crate) guard: u64,
    /// Guard time of the path's devices, during which they may use a rate after a decrease.
    trail: Duration,
    /// Lowest rate, in bits a second.
    pub(crate) least: u64,
    /// Bytes that a device counts for each packet in addition to the packet of IP.
    packet_bytes: u16,
    /// Interfaces that every packet crosses: those of links with a single interface, and the interface of the circuit.
    interfaces: BTreeSet<LinkId>,
}

impl Path {
    /// Returns a path over the given links. Returns `None` if they are not consecutive or have no common channel.
    pub fn new(topology: &Topology, links: Vec<LinkId>) -> Option<Arc<Self>> {
        let abouts: Option<Vec<_>> = links.iter().map(|link| topology.about(*link)).collect();
        let abouts = abouts?;
        let joined = |pair: &[LinkId]| topology.ends(pair[0]).1 == topology.ends(pair[1]).0;
        if links.is_empty() || links.len() > HOPS_MAX || !links.windows(2).all(joined) {
            return None;
        }
        let mut channels = abouts.iter().map(|link| link.channel.as_bps());
        let channel = channels.try_fold(1, least_common_multiple)?;
        let interfaces: BTreeSet<_> = links
            .iter()
            .filter_map(|link| topology.only_interface(*link))
            .collect();
        let ports = interfaces.iter().filter_map(|id| topology.limits(*id));
        let capacities = abouts.iter().map(|link| link.capacity);
        let capacities = capacities.chain(ports.map(|limits| limits.capacity));
        let capacity = capacities.map(Rate::as_bps).min()?;
        let guard = abouts.iter().map(|link| link.guard.as_nanos()).max()?;
        (channel <= capacity).then(|| {
            Arc::new(Self {
                links,
                channel,
                capacity: capacity - capacity % channel,
                guard: u64::try_from(guard).unwrap_or(u64::MAX),
                trail: Duration::ZERO,
                least: 1,
                packet_bytes: 0,
                interfaces,
            })
        })
    }

    /// Returns the same links with a circuit at an interface. Returns `None` if the interface is
    /// not on the path, if its device is unknown, or if the two have no common rate.
    pub fn through(&self, topology: &Topology, interface: LinkId) -> Option<Arc<Self>> {
        let port = topology.interface_by_id(interface)?;
        let limits = port.limits?;
        if !self.links.iter().any(|link| port.links.contains(link)) {
            return None;
        }
        let channel = least_common_multiple(self.channel, limits.channel.as_bps())?;
        let capacity = self.capacity.min(limits.capacity.as_bps());
        let guard = u64::try_from(limits.guard.as_nanos()).unwrap_or(u64::MAX);
        let least = limits.least.as_bps().checked_next_multiple_of(channel)?;
        (channel.max(least) <= capacity).then(|| {
            let mut interfaces = self.interfaces.clone();
            interfaces.insert(interface);
            Arc::new(Self {
                links: self.links.clone(),
                channel,
                capacity: capacity - capacity % channel,
                guard: self.guard.max(guard),
                trail: self.trail.max(limits.guard),
                least,
                packet_bytes: self.packet_bytes.max(limits.packet_bytes),
                interfaces,
            })
        })
    }

    /// Returns the same links with the limits of the devices at all interfaces of the path. Returns `None` if these
    /// have no common rate.
    pub fn with_limits(self: &Arc<Self>, topology: &Topology) -> Option<Arc<Self>> {
        let mut interfaces = self.interfaces.iter();
        interfaces.try_fold(Arc::clone(self), |path, interface| {
            path.through(topology, *interface)
        })
    }

    /// Returns the links and interfaces of the path, which must all have capacity for a booking.
    pub fn resources(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.links.iter().chain(&self.interfaces).copied()
    }

    /// Returns the links of the path, from source to target.
    pub fn links(&self) -> &[LinkId] {
        &self.links
    }

    /// Returns the time for which capacity is held to carry data for `time`.
    pub(crate) fn hold_time(&self, time: Duration) -> Duration {
        time.saturating_add(Duration::from_nanos(self.guard))
    }

    /// Returns the guard time, in which an increase carries nothing.
    pub const fn guard(&self) -> Duration {
        Duration::from_nanos(self.guard)
    }

    /// Returns the time for which the path's devices may use a rate after a decrease.
    pub(crate) const fn trail(&self) -> Duration {
        self.trail
    }

    /// Returns the same path for steps that already include the guard times of the devices.
    pub fn without_trail(&self) -> Arc<Self> {
        Arc::new(Self {
            trail: Duration::ZERO,
            ..self.clone()
        })
    }

    /// Returns the bytes that a device counts for each packet in addition to the IP packet.
    pub const fn packet_bytes(&self) -> u16 {
        self.packet_bytes
    }

    /// Returns the work that its devices count for a request of this much work.
    pub(crate) fn counted(&self, work: u128) -> u128 {
        counted::work(work, self.packet_bytes)
    }

    /// Returns the unit of rates on the path.
    pub fn unit(&self) -> Option<Rate> {
        Rate::from_bps(self.channel)
    }

    /// Returns the lowest rate of a booking.
    pub fn least(&self) -> Option<Rate> {
        Rate::from_bps(self.least)
    }

    /// Returns the capacity of the path, a multiple of the channels of all links.
    pub fn capacity(&self) -> Option<Rate> {
        Rate::from_bps(self.capacity)
    }
}

/// Returns at most `most` paths between two nodes, ordered by cost, then by number of links.
///
/// Paths that cannot be used, since they have no common channel or too many links, do not count.
/// After `UNUSABLE_MAX` of them, the search ends.
pub fn shortest(topology: &Topology, from: NodeId, to: NodeId, most: usize) -> Vec<Arc<Path>> {
    let (mut found, mut paths): (Vec<Vec<LinkId>>, _) = (Vec::new(), Vec::new());
    let mut candidates = BTreeSet::new();
    candidates.extend(cheapest(topology, from, to, &Excluded::default()));
    while let Some((_, _, links)) = candidates.pop_first() {
        paths.extend(Path::new(topology, links.clone()));
        found.push(links);
        if paths.len() >= most || found.len() - paths.len() > UNUSABLE_MAX {
            break;
        }
        candidates.extend(deviations(topology, &found, to));
    }
    paths
}

/// Cost, number of links, and the links, in the order in which paths are tried.
type Ranked = (u64, usize, Vec<LinkId>);

/// Nodes and links that a search must avoid.
#[derive(Default)]
struct Excluded {
    nodes: BTreeSet<NodeId>,
    links: BTreeSet<LinkId>,
}

/// Returns the cheapest new paths that deviate from the last found path at each of its nodes.
fn deviations(topology: &Topology, found: &[Vec<LinkId>], to: NodeId) -> Vec<Ranked> {
    let Some(last) = found.last() else {
        return Vec::new();
    };
    let mut excluded = Excluded::default();
    let mut paths = Vec::new();
    for (nth, link) in last.iter().enumerate() {
        let (root, spur) = (&last[..nth], topology.ends(*link).0);
        let with_root = found.iter().filter(|path| path.starts_with(root));
        excluded.links = with_root
            .filter_map(|path| path.get(nth).copied())
            .collect();
        if let Some((_, _, rest)) = cheapest(topology, spur, to, &excluded) {
            let links = [root, &rest].concat();
            paths.push((cost(topology, &links), links.len(), links));
        }
        excluded.nodes.insert(spur);
    }
    paths
}

/// Returns the cheapest path (Dijkstra 1959). The choice among equally cheap ones is deterministic.
fn cheapest(topology: &Topology, from: NodeId, to: NodeId, excluded: &Excluded) -> Option<Ranked> {
    let mut reached: BTreeMap<NodeId, (u64, usize, Option<LinkId>)> = BTreeMap::new();
    let mut next = BTreeSet::new();
    reached.insert(from, (0, 0, None));
    next.insert((0, 0, from));
    while let Some((cost, hops, node)) = next.pop_first() {
        if node == to {
            let links = links_to(topology, &reached, to);
            return (!links.is_empty()).then_some((cost, hops, links));
        }
        let links = topology.out(node).iter();
        for link in links.filter(|link| !excluded.links.contains(link)) {
            let (_, other) = topology.ends(*link);
            let (cost, hops) = (cost + price(topology, *link), hops + 1);
            let known = reached.get(&other).map(|known| (known.0, known.1));
            if excluded.nodes.contains(&other) || known.is_some_and(|known| known <= (cost, hops)) {
                continue;
            }
            if let Some((cost, hops)) = known {
                next.remove(&(cost, hops, other));
            }
            reached.insert(other, (cost, hops, Some(*link)));
            next.insert((cost, hops, other));
        }
    }
    None
}

/// Returns the links that lead to the end of a search.
fn links_to(
    topology: &Topology,
    reached: &BTreeMap<NodeId, (u64, usize, Option<LinkId>)>,
    to: NodeId,
) -> Vec<LinkId> {
    let mut links = Vec::new();
    let mut node = to;
    while let Some((_, _, Some(link))) = reached.get(&node) {
        links.push(*link);
        node = topology.ends(*link).0;
    }
    links.reverse();
    links
}

fn price(topology: &Topology, link: LinkId) -> u64 {
    topology.about(link).map_or(0, |link| u64::from(link.cost))
}

fn cost(topology: &Topology, links: &[LinkId]) -> u64 {
    links.iter().map(|link| price(topology, *link)).sum()
}

fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b)
}

/// Maximum number of links in a path.
pub const HOPS_MAX: usize = 64;
/// Maximum number of unusable paths that a search skips, which bounds its time.
const UNUSABLE_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Limits;
    use crate::topology::Link;
    use alloc::borrow::ToOwned;
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec;
    use proptest::prelude::*;

    fn topology(nodes: u8, links: &[(u8, u8, u32)]) -> Option<Topology> {
        let links = links
            .iter()
            .enumerate()
            .map(|(nth, (from, to, cost))| Link {
                name: nth.to_string(),
                from: (from % nodes).to_string(),
                to: (to % nodes).to_string(),
                capacity: Rate::from_mbps(1000 + nth as u64),
                channel: Rate::from_mbps(1),
                guard: Duration::from_nanos(nth as u64),
                cost: *cost,
            });
        let names = (0..nodes).map(|node| node.to_string()).collect();
        Topology::new(names, links.filter(|link| link.from != link.to).collect()).ok()
    }

    /// Returns every loopless path by exhaustive search.
    fn all(topology: &Topology, from: NodeId, to: NodeId) -> Vec<Ranked> {
        let (mut found, mut open) = (vec![], vec![(from, vec![], BTreeSet::from([from]))]);
        while let Some((node, links, seen)) = open.pop() {
            if node == to {
                found.push((cost(topology, &links), links.len(), links));
                continue;
            }
            for link in topology.out(node) {
                let (_, other) = topology.ends(*link);
                let mut seen = seen.clone();
                if seen.insert(other) {
                    open.push((other, [&links[..], &[*link]].concat(), seen));
                }
            }
        }
        found.sort();
        found
    }

    proptest! {
        #[test]
        fn shortest_paths_match_an_exhaustive_search(
            links in prop::collection::vec((0_u8..6, 0_u8..6, 0_u32..4), 1..14), nodes in 2_u8..6, most in 1_usize..12,
        ) {
            if let Some(topology) = topology(nodes, &links) {
                let (from, to) = (NodeId(0), NodeId(1));
                let all = all(&topology, from, to);
                let found: Vec<Ranked> = shortest(&topology, from, to, most)
                    .iter()
                    .map(|path| (cost(&topology, path.links()), path.links().len(), path.links().to_vec()))
                    .collect();
                let ranks = |paths: &[Ranked]| paths.iter().map(|path| (path.0, path.1)).collect::<Vec<_>>();
                prop_assert_eq!(ranks(&found), ranks(&all[..all.len().min(most)]));
                prop_assert!(found.iter().all(|path| all.contains(path)));
                let different: BTreeSet<_> = found.iter().collect();
                prop_assert_eq!(different.len(), found.len());
            }
        }
    }

    #[test]
    fn cheapest_path_is_first_and_fewer_links_break_ties() {
        let first = |nodes, links: &[(u8, u8, u32)]| -> Vec<LinkId> {
            let topology = topology(nodes, links).unwrap();
            let paths = shortest(&topology, NodeId(0), NodeId(1), 1);
            paths[0].links().to_vec()
        };
        let dear = [(0, 1, 5), (0, 2, 1), (2, 1, 1)];
        assert_eq!(first(3, &dear), [LinkId(1), LinkId(2)]);
        // both paths cost 2, and a search without regard to their lengths finds the longer one first
        let long = [(0, 2, 1), (2, 3, 1), (3, 1, 0), (0, 4, 2), (4, 1, 0)];
        assert_eq!(first(5, &long), [LinkId(3), LinkId(4)]);
    }

    #[test]
    fn unusable_paths_are_not_included_in_the_maximum() {
        let link = |(nth, (from, to, channel, cost)): (usize, (&str, &str, u64, u32))| Link {
            name: nth.to_string(),
            from: from.into(),
            to: to.into(),
            capacity: Rate::from_mbps(1000),
            channel: Rate::from_mbps(channel),
            guard: Duration::ZERO,
            cost,
        };
        // the common channel of 7 and 143 Mb/s is above the capacity
        let links = [
            ("a", "b", 7, 1),
            ("b", "d", 143, 1),
            ("a", "c", 7, 2),
            ("c", "d", 7, 2),
            ("a", "d", 1, 9),
        ];
        let names = ["a", "b", "c", "d"].map(ToString::to_string).to_vec();
        let links = links.into_iter().enumerate().map(link).collect();
        let topology = Topology::new(names, links).unwrap();
        let found = |most| -> Vec<Vec<LinkId>> {
            let paths = shortest(&topology, NodeId(0), NodeId(3), most);
            paths.iter().map(|path| path.links().to_vec()).collect()
        };
        let (through_c, direct) = (vec![LinkId(2), LinkId(3)], vec![LinkId(4)]);
        assert_eq!(found(9), [through_c, direct]);
        assert_eq!(found(1), found(9)[..1]);
    }

    #[test]
    fn search_for_usable_paths_is_bounded() {
        // pairs of links to each next node: 2^12 paths, none of which has a common channel
        let nodes: Vec<_> = (0..13_u8).map(|node| node.to_string()).collect();
        let mut links = vec![];
        for (pair, nth) in nodes.windows(2).zip(0_u64..) {
            for side in ["x", "y"] {
                links.push(Link {
                    name: [pair[0].as_str(), side].concat(),
                    from: pair[0].clone(),
                    to: pair[1].clone(),
                    capacity: Rate::from_mbps(1000),
                    channel: Rate::from_mbps(if nth % 2 == 0 { 7 } else { 143 }),
                    guard: Duration::ZERO,
                    cost: 1,
                });
            }
        }
        let topology = Topology::new(nodes, links).unwrap();
        assert!(shortest(&topology, NodeId(0), NodeId(12), 1).is_empty());
    }

    /// Returns the number of paths from a to c over 60 cheap usable links, `unusable` pairs of links without a common
    /// channel, and one expensive usable link.
    fn usable_beside(unusable: usize) -> usize {
        let link = |name: String, [from, to]: [&str; 2], channel, cost| Link {
            name,
            from: from.to_owned(),
            to: to.to_owned(),
            capacity: Rate::from_mbps(1000),
            channel: Rate::from_mbps(channel),
            guard: Duration::ZERO,
            cost,
        };
        let mut links = vec![
            link("far".to_owned(), ["b", "c"], 143, 1),
            link("dear".to_owned(), ["a", "c"], 1, 9),
        ];
        links.extend((0..60).map(|nth| link(format!("cheap{nth}"), ["a", "c"], 1, 1)));
        links.extend((0..unusable).map(|nth| link(format!("near{nth}"), ["a", "b"], 7, 1)));
        let names = ["a", "b", "c"].map(ToString::to_string).to_vec();
        let topology = Topology::new(names, links).unwrap();
        shortest(&topology, NodeId(0), NodeId(2), 100).len()
    }

    #[test]
    fn search_ends_after_more_unusable_paths_than_the_limit() {
        assert_eq!(usable_beside(10), 61);
        assert_eq!(usable_beside(UNUSABLE_MAX), 61);
        assert_eq!(usable_beside(UNUSABLE_MAX + 1), 60);
    }

    #[test]
    fn circuit_has_the_limits_of_its_path_and_its_interface() {
        let mut topology = topology(3, &[(0, 1, 1), (1, 2, 1)]).unwrap();
        let mbps = Rate::from_mbps;
        let limits = Limits {
            capacity: mbps(905),
            channel: mbps(10),
            least: mbps(15),
            guard: Duration::from_nanos(7),
            packet_bytes: 0,
            circuits_max: 1,
        };
        for (name, link) in [("eth0", 0), ("eth1", 1), ("eth2", 0)] {
            topology.attach(name, &[LinkId(link)]).unwrap();
        }
        let number = |topology: &Topology, name| topology.interface(name).unwrap().0;
        let path = Path::new(&topology, vec![LinkId(0)]).unwrap();
        let circuit = |topology: &Topology, name| path.through(topology, number(topology, name));
        assert_eq!(circuit(&topology, "eth0"), None, "its device is unknown");
        let with = |topology: &mut Topology, limits| {
            topology.set_limits("eth0", limits).unwrap();
            topology.set_limits("eth1", limits).unwrap();
        };
        with(&mut topology, limits);
        assert_eq!(circuit(&topology, "eth1"), None, "another link");
        assert_eq!(path.through(&topology, LinkId(0)), None, "no interface");
        let found = circuit(&topology, "eth0").unwrap();
        assert_eq!(found.capacity(), Some(mbps(900)));
        assert_eq!((found.channel, found.least), (10_000_000, 20_000_000));
        let second = Duration::from_secs(1);
        assert_eq!(path.hold_time(second), second);
        assert_eq!(found.hold_time(second), second + limits.guard);
        for (least, is_possible) in [(900, true), (905, false), (910, false)] {
            let least = mbps(least);
            with(&mut topology, Limits { least, ..limits });
            let found = circuit(&topology, "eth0");
            assert_eq!(found.is_some(), is_possible, "{least}");
        }
    }

    #[test]
    fn path_has_the_lowest_capacity_and_the_longest_guard_time_of_its_links() {
        let topology = topology(4, &[(0, 1, 1), (1, 2, 1), (2, 3, 1)]).unwrap();
        let path = &shortest(&topology, NodeId(0), NodeId(3), 5)[0];
        assert_eq!(path.capacity(), Some(Rate::from_mbps(1000)));
        assert_eq!((path.guard, path.channel), (2, 1_000_000));
        assert_eq!(shortest(&topology, NodeId(3), NodeId(0), 5), []);
        assert_eq!(shortest(&topology, NodeId(0), NodeId(0), 5), []);
        assert_eq!(Path::new(&topology, vec![LinkId(0), LinkId(2)]), None);
        assert_eq!(Path::new(&topology, vec![LinkId(9)]), None);
    }

    #[test]
    fn path_crosses_the_only_interface_of_each_link() {
        let mut topology = topology(3, &[(0, 1, 1), (1, 2, 1)]).unwrap();
        let limits = Limits {
            capacity: Rate::from_mbps(300),
            channel: Rate::from_mbps(1),
            least: Rate::from_mbps(1),
            guard: Duration::ZERO,
            packet_bytes: 0,
            circuits_max: 1,
        };
        topology.attach("eth0", &[LinkId(0)]).unwrap();
        let links = vec![LinkId(0), LinkId(1)];
        let path = |topology: &Topology| Path::new(topology, links.clone()).unwrap();
        // its device is unknown
        assert_eq!(path(&topology).resources().count(), 2);
        topology.set_limits("eth0", limits).unwrap();
        assert_eq!(path(&topology).capacity(), Some(Rate::from_mbps(300)));
        assert_eq!(path(&topology).resources().count(), 3);
        // either of two may be the one
        topology.attach("eth1", &[LinkId(0)]).unwrap();
        topology.set_limits("eth1", limits).unwrap();
        assert_eq!(path(&topology).capacity(), Some(Rate::from_mbps(1000)));
        let (eth1, _) = topology.interface("eth1").unwrap();
        let circuit = path(&topology).through(&topology, eth1).unwrap();
        assert_eq!(circuit.resources().last(), Some(eth1));
    }

    #[test]
    fn channel_of_a_path_is_a_multiple_of_all_channels() {
        assert_eq!(least_common_multiple(4, 6), Some(12));
        assert_eq!(least_common_multiple(1, 7), Some(7));
        assert_eq!(least_common_multiple(u64::MAX, u64::MAX - 1), None);
    }
}
