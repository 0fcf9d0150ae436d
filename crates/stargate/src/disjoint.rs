//! Cheapest pair of paths without a common link or intermediate domain (Suurballe 1974; Bhandari 1999).
//!
//! The cheapest path may block every other one, although a pair exists:
//!
//! ```text
//!      1 --- 2
//!    /   \     \       cheapest path: s 1 4 t; no other one is disjoint from it
//!   s      \    t      pair: s 1 2 t and s 3 4 t
//!    \      \  /
//!      3 --- 4
//! ```
//!
//! So the second search may go back along the links of the first path, and gets their cost back. What both searches use
//! in opposite directions is in neither path of the pair. Each domain is split into an entry and an exit with one edge
//! between them, so that only one path crosses it.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::key::DomainId;
use crate::request::Excludes;
use crate::topology::{DomainLink, Topology};

/// Entry or exit of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Entry(DomainId),
    Exit(DomainId),
}

/// Step of the second search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Along a link, from an exit to an entry.
    Along(DomainLink),
    /// Back along a link of the first path.
    Back(DomainLink),
    /// Between the entry and the exit of a domain.
    Inside,
}

/// Returns the cheapest pair of paths without excluded parts, if `first` is the cheapest path between its ends.
pub(crate) fn pair(
    topology: &Topology,
    (from, to): (DomainId, DomainId),
    excludes: &Excludes,
    first: &[DomainLink],
) -> Option<[Vec<DomainLink>; 2]> {
    let steps = second(topology, (from, to), excludes, first)?;
    let mut links: BTreeSet<DomainLink> = first.iter().copied().collect();
    for step in steps {
        match step {
            Step::Along(link) => drop(links.insert(link)),
            Step::Back(link) => drop(links.remove(&link)),
            Step::Inside => {}
        }
    }
    let mut path = || {
        let (mut path, mut at) = (Vec::new(), from);
        while at != to {
            let next = links.iter().find(|link| link.from == at).copied()?;
            links.remove(&next);
            at = next.to;
            path.push(next);
        }
        Some(path)
    };
    Some([path()?, path()?])
}

/// Returns the steps of the cheapest second path, which may use the first in reverse (Bellman 1958: costs may be
/// negative).
fn second(
    topology: &Topology,
    (from, to): (DomainId, DomainId),
    excludes: &Excludes,
    first: &[DomainLink],
) -> Option<Vec<Step>> {
    let (start, end) = (Side::Exit(from), Side::Entry(to));
    let mut known: BTreeMap<Side, (i128, Side, Step)> = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(at) = open.pop_front() {
        let spent = known.get(&at).map_or(0, |(spent, ..)| *spent);
        for (next, step) in steps(topology, excludes, first, at) {
            let total = spent + weight(step);
            let is_better = known.get(&next).is_none_or(|(known, ..)| total < *known);
            if is_better && next != start {
                known.insert(next, (total, at, step));
                if next != end && !open.contains(&next) {
                    open.push_back(next);
                }
            }
        }
    }
    let mut steps = Vec::new();
    let mut at = end;
    while at != start {
        let (_, before, step) = known.get(&at)?;
        steps.push(*step);
        at = *before;
    }
    Some(steps)
}

/// Returns the steps from one side of a domain.
fn steps(
    topology: &Topology,
    excludes: &Excludes,
    first: &[DomainLink],
    at: Side,
) -> Vec<(Side, Step)> {
    let is_crossed = |domain| first.iter().skip(1).any(|link| link.from == domain);
    match at {
        Side::Entry(domain) => {
            let back = first.iter().filter(|link| link.to == domain);
            let back = back.map(|link| (Side::Exit(link.from), Step::Back(*link)));
            let inside = (!is_crossed(domain)).then_some((Side::Exit(domain), Step::Inside));
            back.chain(inside).collect()
        }
        Side::Exit(domain) => {
            let is_free = |link: &&DomainLink| {
                !first.contains(link)
                    && !excludes.links.contains(&link.port)
                    && !excludes.domains.contains(&link.to)
            };
            let along = topology.out(domain).iter().filter(is_free);
            let along = along.map(|link| (Side::Entry(link.to), Step::Along(*link)));
            let inside = is_crossed(domain).then_some((Side::Entry(domain), Step::Inside));
            along.chain(inside).collect()
        }
    }
}

/// Returns the cost of a step; of equal costs, fewer links are better.
fn weight(step: Step) -> i128 {
    let weight = |link: DomainLink| (i128::from(link.cost) << 32) + 1;
    match step {
        Step::Along(link) => weight(link),
        Step::Back(link) => -weight(link),
        Step::Inside => 0,
    }
}
