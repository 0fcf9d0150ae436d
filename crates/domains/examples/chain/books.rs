//! Books of all domains, compared with each other.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_base::Rate;
use lighthaul_domains::{Service, Status};
use lighthaul_stargate::{CorrelationId, DomainId, PortId, Stage, StoredReservation};

use super::running::Ends;

/// Returns a committed path whose domains disagree: a neighbor on the path does not have it, or has another vector.
/// Domains without a status are left out.
pub(crate) fn disagreement(statuses: &BTreeMap<u32, Status>) -> Option<String> {
    let vectors = |status: &Status| {
        let committed = committed(status).map(|one| {
            let key = one.key;
            (key.source, key.id, key.attempt, one.vector.to_string())
        });
        committed.collect::<BTreeSet<_>>()
    };
    let books: BTreeMap<u32, _> = statuses
        .iter()
        .map(|(me, one)| (*me, vectors(one)))
        .collect();
    for (me, status) in statuses {
        for one in committed(status) {
            let lost = one.lost.map(|lost| lost.leg);
            let children = one.children.iter().filter(|child| Some(child.leg) != lost);
            let mut around = children.map(|child| child.neighbor).chain(one.upstream);
            let key = one.key;
            let entry = (key.source, key.id, key.attempt, one.vector.to_string());
            let lacks = |DomainId(other): &DomainId| {
                books.get(other).is_some_and(|book| !book.contains(&entry))
            };
            if let Some(other) = around.find(lacks) {
                return Some(format!("domain {me} has {entry:?}, and {other:?} has not"));
            }
        }
    }
    None
}

/// Asserts that the committed paths of a chain are in the books of all their domains, with the same vectors. No other
/// domain has them, and no port exceeds its capacity. Returns the rate of the fullest port in b/s.
pub(crate) fn assert_agree(services: &[Service], paths: &Ends, capacity: u64) -> u64 {
    let statuses = services.iter().map(|one| one.handle().status().unwrap());
    let statuses: BTreeMap<u32, Status> = (1..).zip(statuses).collect();
    assert_eq!(disagreement(&statuses), None);
    let mut found: BTreeMap<CorrelationId, BTreeSet<u32>> = BTreeMap::new();
    let mut loads: BTreeMap<(u32, PortId, bool), Vec<&StoredReservation>> = BTreeMap::new();
    for (me, status) in &statuses {
        for one in committed(status) {
            found.entry(one.key.id).or_default().insert(*me);
            for segment in &one.segments {
                let ways = [(segment.ingress, true), (segment.egress, false)];
                for (port, enters) in ways {
                    loads.entry((*me, port, enters)).or_default().push(one);
                }
            }
        }
    }
    let expected = paths.iter().map(|(id, [from, to])| {
        let domains = *from.min(to)..=*from.max(to);
        (*id, domains.collect::<BTreeSet<u32>>())
    });
    assert_eq!(found, expected.collect(), "domains of the committed paths");
    let fullest = loads.values().map(|paths| greatest(paths));
    let fullest = fullest.max().unwrap_or(0);
    assert!(fullest <= capacity, "a port carries {fullest} b/s");
    fullest
}

fn committed(status: &Status) -> impl Iterator<Item = &StoredReservation> {
    let all = status.reservations.iter();
    let committed = all.filter(|one| one.stage == Stage::Committed);
    committed.map(|one| &one.stored)
}

/// Returns the greatest sum of the rates of reservations, which is greatest where one of them begins a step.
fn greatest(paths: &[&StoredReservation]) -> u64 {
    // for each time: the sum of what begins and ends there
    let mut changes: BTreeMap<_, i128> = BTreeMap::new();
    for step in paths.iter().flat_map(|path| path.vector.steps()) {
        let bps = i128::from(Rate::as_bps(step.rate));
        *changes.entry(step.from).or_default() += bps;
        *changes.entry(step.till).or_default() -= bps;
    }
    let sums = changes.values().scan(0, |sum, change| {
        *sum += change;
        Some(*sum)
    });
    let most = sums.max().and_then(|most| u64::try_from(most).ok());
    most.unwrap_or(0)
}
