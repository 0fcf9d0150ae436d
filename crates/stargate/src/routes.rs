//! The k shortest loopless paths between domains (Yen 1971), and disjoint paths.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::config::Config;
use crate::disjoint;
use crate::key::{DomainId, HOPS_MAX, Hop, PortId, Segment};
use crate::request::{Excludes, Protection, Request};
use crate::topology::{DomainLink, Topology};

/// Returns at most `most` candidate paths of a request, ordered by cost. A path that is disjoint from the first one
/// follows, if there is one, and for a protected path the cheapest disjoint pair.
pub(crate) fn candidates(
    topology: &Topology,
    me: DomainId,
    request: &Request,
    most: usize,
) -> Vec<Vec<Hop>> {
    let ends = (me, request.to);
    let mut paths = shortest(topology, ends, &request.excludes, most);
    if let Some(first) = paths.first() {
        let mut excludes = request.excludes.clone();
        excludes.links.extend(first.iter().map(|link| link.port));
        let inner = first.iter().map(|link| link.to);
        excludes
            .domains
            .extend(inner.filter(|domain| *domain != request.to));
        let disjoint = cheapest(topology, ends, &excludes).map(|(_, path)| path);
        let pair = match request.protection {
            Protection::None => None,
            Protection::Disjoint => disjoint::pair(topology, ends, &request.excludes, first),
        };
        for path in disjoint.into_iter().chain(pair.into_iter().flatten()) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    let hops = paths.iter().map(|path| hops(me, request, path));
    hops.filter(|hops| hops.len() <= HOPS_MAX).collect()
}

/// Returns the domains of the cheapest path that the source domain cannot ask directly, since they are not neighbors.
/// Returns none if it can ask all domains of another candidate path.
pub fn strangers(config: &Config, topology: &Topology, request: &Request) -> BTreeSet<DomainId> {
    let paths = candidates(topology, config.me, request, config.paths_max);
    let strangers = |hops: &Vec<Hop>| -> BTreeSet<DomainId> {
        let domains = hops.iter().skip(1).map(|hop| hop.domain);
        let others = domains.filter(|domain| !config.neighbors.contains_key(domain));
        others.collect()
    };
    let mut all = paths.iter().map(strangers);
    let first = all.next().unwrap_or_default();
    if all.any(|others| others.is_empty()) {
        return BTreeSet::new();
    }
    first
}

/// Returns true if two paths have no link and no domain between the ends in common.
pub(crate) fn is_disjoint(one: &[Hop], two: &[Hop]) -> bool {
    let links = |hops: &[Hop]| -> BTreeSet<PortId> {
        let inner = hops.iter().skip(1).map(|hop| hop.segment.ingress);
        inner.collect()
    };
    let domains = |hops: &[Hop]| -> BTreeSet<DomainId> {
        let inner = hops.iter().skip(1).take(hops.len().saturating_sub(2));
        inner.map(|hop| hop.domain).collect()
    };
    links(one).is_disjoint(&links(two)) && domains(one).is_disjoint(&domains(two))
}

fn hops(me: DomainId, request: &Request, path: &[DomainLink]) -> Vec<Hop> {
    let mut hops = Vec::with_capacity(path.len() + 1);
    let (mut domain, mut ingress) = (me, request.ingress);
    for link in path {
        let egress = link.port;
        let segment = Segment { ingress, egress };
        hops.push(Hop { domain, segment });
        (domain, ingress) = (link.to, link.port);
    }
    let egress = request.egress;
    let segment = Segment { ingress, egress };
    hops.push(Hop { domain, segment });
    hops
}

fn shortest(
    topology: &Topology,
    (from, to): (DomainId, DomainId),
    excludes: &Excludes,
    most: usize,
) -> Vec<Vec<DomainLink>> {
    let mut found: Vec<Vec<DomainLink>> = Vec::new();
    let mut open = BTreeSet::new();
    open.extend(cheapest(topology, (from, to), excludes));
    while let Some((_, path)) = open.pop_first() {
        found.push(path);
        if found.len() >= most {
            break;
        }
        let last = &found[found.len() - 1];
        for spur in 0..last.len() {
            let (kept, node) = (&last[..spur], last[spur].from);
            let mut excludes = excludes.clone();
            excludes.domains.extend(kept.iter().map(|link| link.from));
            let same = found.iter().filter(|path| path.starts_with(kept));
            let used = same.filter_map(|path| path.get(spur));
            excludes.links.extend(used.map(|link| link.port));
            if let Some((_, rest)) = cheapest(topology, (node, to), &excludes) {
                let path = [kept, &rest].concat();
                if !found.contains(&path) {
                    open.insert((cost(&path), path));
                }
            }
        }
    }
    found
}

fn cost(path: &[DomainLink]) -> (u64, usize) {
    let costs = path.iter().map(|link| u64::from(link.cost));
    (costs.sum(), path.len())
}

/// Cost and links of a path.
type Costed = ((u64, usize), Vec<DomainLink>);

/// Returns the cheapest path (Dijkstra 1959).
fn cheapest(
    topology: &Topology,
    (from, to): (DomainId, DomainId),
    excludes: &Excludes,
) -> Option<Costed> {
    let mut done = BTreeSet::new();
    let mut before: BTreeMap<DomainId, ((u64, usize), DomainLink)> = BTreeMap::new();
    let mut open = BTreeSet::from([((0, 0), from)]);
    while let Some((spent, at)) = open.pop_first() {
        if at == to {
            let mut path = Vec::new();
            let mut at = to;
            while at != from {
                let (_, link) = before.get(&at)?;
                path.push(*link);
                at = link.from;
            }
            path.reverse();
            return Some((spent, path));
        }
        if !done.insert(at) {
            continue;
        }
        for link in topology.out(at) {
            let is_out = excludes.links.contains(&link.port)
                || excludes.domains.contains(&link.to)
                || done.contains(&link.to);
            let total = (spent.0 + u64::from(link.cost), spent.1 + 1);
            let known = before.get(&link.to);
            if !is_out && known.is_none_or(|(known, _)| total < *known) {
                before.insert(link.to, (total, *link));
                open.insert((total, link.to));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use core::time::Duration;

    use lighthaul_base::{Instant, Rate};
    use proptest::prelude::*;

    use super::*;
    use crate::key::CorrelationId;
    use crate::offer::Demand;
    use crate::request::Signaling;

    const COUNT: u32 = 6;

    fn links() -> impl Strategy<Value = Vec<DomainLink>> {
        let link =
            (0..COUNT, 0..COUNT, 1_u32..4).prop_filter("no loop", |(from, to, _)| from != to);
        prop::collection::vec(link, 1..20).prop_map(|links| {
            let link = |(nth, (from, to, cost))| DomainLink {
                port: PortId(nth),
                from: DomainId(from),
                to: DomainId(to),
                cost,
            };
            (0..).zip(links).map(link).collect()
        })
    }

    fn request(excludes: Excludes) -> Request {
        Request {
            id: CorrelationId(1),
            ingress: PortId(100),
            to: DomainId(COUNT - 1),
            egress: PortId(101),
            demand: Demand {
                bytes: 1,
                rate_max: Rate::UNLIMITED,
                rate_min: Rate::UNLIMITED,
            },
            from: Instant::ZERO,
            till: Instant::ZERO + Duration::from_secs(1),
            excludes,
            protection: Protection::None,
            signaling: Signaling::Chain,
        }
    }

    /// Returns the costs of all loopless paths.
    fn all(links: &[DomainLink], excludes: &Excludes) -> Vec<(u64, usize)> {
        let paths = all_paths(links, excludes);
        let mut costs: Vec<_> = paths.iter().map(|path| cost(path)).collect();
        costs.sort_unstable();
        costs
    }

    /// Returns all loopless paths.
    fn all_paths(links: &[DomainLink], excludes: &Excludes) -> Vec<Vec<DomainLink>> {
        let mut paths = Vec::new();
        let mut open = vec![Vec::new()];
        while let Some(path) = open.pop() {
            let at = path.last().map_or(DomainId(0), |link: &DomainLink| link.to);
            if at == DomainId(COUNT - 1) {
                paths.push(path);
                continue;
            }
            for link in links.iter().filter(|link| link.from == at) {
                let is_out = excludes.links.contains(&link.port)
                    || excludes.domains.contains(&link.to)
                    || link.to == DomainId(0)
                    || path.iter().any(|before| before.to == link.to);
                if !is_out {
                    open.push([&path[..], &[*link]].concat());
                }
            }
        }
        paths
    }

    /// Returns true if two paths have no link and no domain between the ends in common.
    fn is_apart(one: &[DomainLink], two: &[DomainLink]) -> bool {
        let inner = |path: &[DomainLink]| -> BTreeSet<DomainId> {
            path.iter().skip(1).map(|link| link.from).collect()
        };
        inner(one).is_disjoint(&inner(two)) && !one.iter().any(|link| two.contains(link))
    }

    #[test]
    fn pair_is_found_even_if_the_cheapest_path_blocks_every_second_path() {
        let costs = [
            ((0, 1), 1),
            ((1, 4), 1),
            ((4, 5), 1),
            ((1, 2), 3),
            ((2, 5), 3),
            ((0, 3), 3),
            ((3, 4), 3),
        ];
        let links = (0..)
            .zip(costs)
            .map(|(nth, ((from, to), cost))| DomainLink {
                port: PortId(nth),
                from: DomainId(from),
                to: DomainId(to),
                cost,
            });
        let topology = Topology::new(&links.collect::<Vec<_>>());
        let domains = |hops: &[Hop]| hops.iter().map(|hop| hop.domain.0).collect::<Vec<_>>();
        let mut wanted = request(Excludes::default());
        let greedy = candidates(&topology, DomainId(0), &wanted, 1);
        assert_eq!(
            greedy.iter().map(|hops| domains(hops)).collect::<Vec<_>>(),
            [[0, 1, 4, 5]]
        );
        wanted.protection = Protection::Disjoint;
        let found = candidates(&topology, DomainId(0), &wanted, 1);
        assert_eq!(found.len(), 3);
        assert!(is_disjoint(&found[1], &found[2]));
        let mut pair = [domains(&found[1]), domains(&found[2])];
        pair.sort();
        assert_eq!(pair, [[0, 1, 2, 5], [0, 3, 4, 5]]);
    }

    proptest! {
        #[test]
        fn candidates_are_the_cheapest_paths_without_excluded_parts(
            links in links(), most in 1_usize..8, without in 1..COUNT - 1, port in 0_u32..20,
        ) {
            let excludes = Excludes {
                domains: [DomainId(without)].into(),
                links: [PortId(port)].into(),
            };
            let topology = Topology::new(&links);
            let ends = (DomainId(0), DomainId(COUNT - 1));
            let found = shortest(&topology, ends, &excludes, most);
            let costs: Vec<_> = found.iter().map(|path| cost(path)).collect();
            let mut expected = all(&links, &excludes);
            expected.truncate(most);
            prop_assert_eq!(costs, expected);
        }

        #[test]
        fn disjoint_candidate_is_found_if_the_first_path_permits_a_second_path(links in links()) {
            let topology = Topology::new(&links);
            let request = request(Excludes::default());
            let found = candidates(&topology, DomainId(0), &request, 1);
            let Some(first) = found.first() else {
                prop_assert!(all(&links, &Excludes::default()).is_empty());
                return Ok(());
            };
            let excludes = Excludes {
                domains: first[1..first.len() - 1].iter().map(|hop| hop.domain).collect(),
                links: first[1..].iter().map(|hop| hop.segment.ingress).collect(),
            };
            let exists = !all(&links, &excludes).is_empty();
            prop_assert_eq!(found.len() == 2, exists);
            prop_assert!(found.len() < 2 || is_disjoint(first, &found[1]));
            prop_assert!(!is_disjoint(first, first));
        }

        #[test]
        fn protected_path_has_the_cheapest_disjoint_pair(
            links in links(), without in 1..COUNT - 1, port in 0_u32..20,
        ) {
            let excludes = Excludes {
                domains: [DomainId(without)].into(),
                links: [PortId(port)].into(),
            };
            let topology = Topology::new(&links);
            let ends = (DomainId(0), DomainId(COUNT - 1));
            let every = all_paths(&links, &excludes);
            let mut pairs = Vec::new();
            for (nth, one) in every.iter().enumerate() {
                for two in &every[nth + 1..] {
                    if is_apart(one, two) {
                        let (one, two) = (cost(one), cost(two));
                        pairs.push((one.0 + two.0, one.1 + two.1));
                    }
                }
            }
            let first = cheapest(&topology, ends, &excludes);
            let found = first.and_then(|(_, first)| disjoint::pair(&topology, ends, &excludes, &first));
            let found = found.map(|[one, two]| {
                assert!(every.contains(&one) && every.contains(&two) && is_apart(&one, &two));
                let (one, two) = (cost(&one), cost(&two));
                (one.0 + two.0, one.1 + two.1)
            });
            prop_assert_eq!(found, pairs.into_iter().min());
        }
    }
}
