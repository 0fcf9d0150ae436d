//! Reservations that move to another route of their ports, whose links other interfaces use.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_base::{Instant, Rng};
use lighthaul_circuit::sim_device::SimFault;
use lighthaul_stargate::{RateChange, Segment};

use crate::devices::SharedLink;
use crate::devices::link_book::LinkBook;
use crate::devices::shared_link::RouteRates;
use crate::devices::tests::example::{Interface, change, link, segment};

const MOVING: Segment = segment(1, 2);
const OTHER: Segment = segment(3, 4);

fn on(route: u8, change: RateChange) -> RateChange {
    RateChange { route, ..change }
}

/// Returns an interface whose circuit has 60 Mb/s on route 0, and another one that has 80 Mb/s of route 1.
fn begun(guard: Duration) -> (Interface, Interface) {
    let links = LinkBook::new(&[link("a-b", &[(MOVING, 1), (OTHER, 0)])]);
    let mut moving = Interface::new(&links, &[MOVING], guard);
    let mut other = Interface::new(&links, &[OTHER], guard);
    assert_eq!(moving.apply(0, &[change(1, MOVING, 60)]), []);
    assert_eq!(other.apply(0, &[change(2, OTHER, 80)]), []);
    assert_eq!((moving.mbps(MOVING), other.mbps(OTHER)), (60, 80));
    (moving, other)
}

#[test]
fn rate_that_moves_to_a_full_link_waits_for_its_capacity() {
    // the same rate, a lower one and a higher one
    for mbps in [60, 30, 90] {
        let (mut moving, mut other) = begun(Duration::ZERO);
        let next = [change(1, MOVING, 0), on(1, change(3, MOVING, mbps))];
        assert_eq!(moving.apply(10, &next), []);
        assert_eq!(moving.mbps(MOVING), 0, "{mbps}");
        assert!(moving.devices.waits_for_link(), "{mbps}");
        assert_eq!(other.apply(20, &[change(2, OTHER, 10)]), []);
        assert_eq!(moving.apply(20, &[]), []);
        assert_eq!((moving.mbps(MOVING), other.mbps(OTHER)), (mbps, 10));
        assert!(!moving.devices.waits_for_link(), "{mbps}");
    }
}

#[test]
fn part_of_a_rate_stays_on_its_route_while_the_other_part_waits() {
    let (mut moving, mut other) = begun(Duration::ZERO);
    let next = [change(1, MOVING, 20), on(1, change(3, MOVING, 40))];
    assert_eq!(moving.apply(10, &next), []);
    assert_eq!(moving.mbps(MOVING), 20);
    assert_eq!(other.apply(20, &[change(2, OTHER, 60)]), []);
    assert_eq!(moving.apply(20, &[]), []);
    assert_eq!(moving.mbps(MOVING), 60);
}

#[test]
fn rate_that_moves_waits_for_the_guard_time_of_the_other_interface() {
    let (mut moving, mut other) = begun(Duration::from_millis(200));
    assert_eq!(other.apply(100, &[change(2, OTHER, 0)]), []);
    let next = [change(1, MOVING, 0), on(1, change(3, MOVING, 60))];
    assert_eq!(moving.apply(150, &next), []);
    assert_eq!(moving.mbps(MOVING), 0);
    assert_eq!(moving.apply(299, &[]), []);
    assert_eq!(moving.mbps(MOVING), 0);
    assert_eq!(moving.apply(300, &[]), []);
    assert_eq!(moving.mbps(MOVING), 60);
}

#[test]
fn rate_that_moves_to_a_free_link_is_not_interrupted() {
    let (mut moving, mut other) = begun(Duration::ZERO);
    assert_eq!(other.apply(10, &[change(2, OTHER, 40)]), []);
    // no change of the device is needed, so a device that refuses all changes is no obstacle
    moving.device.fail_change(Some(SimFault::Refused), 0);
    let next = [change(1, MOVING, 0), on(1, change(3, MOVING, 60))];
    assert_eq!(moving.apply(20, &next), []);
    assert_eq!(moving.mbps(MOVING), 60);
    // the link is taken now
    assert_eq!(other.apply(30, &[change(2, OTHER, 41)]), []);
    assert_eq!(other.mbps(OTHER), 40);
}

#[test]
fn failed_decrease_of_a_rate_that_moves_is_reported() {
    let (mut moving, _other) = begun(Duration::ZERO);
    moving.device.fail_change(Some(SimFault::Refused), 0);
    let next = [change(1, MOVING, 20), on(1, change(3, MOVING, 40))];
    let faults = moving.apply(10, &next);
    let circuits = faults.iter().map(|fault| fault.circuit);
    let both = next.map(|change| change.circuit);
    assert_eq!(circuits.collect::<Vec<_>>(), both, "{faults:?}");
    assert_eq!(moving.mbps(MOVING), 60);
    // the next call tries again
    assert_eq!(moving.apply(20, &[]), []);
    assert_eq!(moving.mbps(MOVING), 20);
}

/// Reservations of one interface in Mb/s, by their numbers.
type Reservations = BTreeMap<u128, (Segment, u8, u64)>;

/// Random reservations on random routes, beside a search through all divisions of the rates of devices.
#[test]
fn no_link_carries_more_than_its_capacity() {
    let seed = 11;
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let mut waits = 0;
    for _ in 0..WORLDS {
        let segments = [
            [segment(1, 2), segment(1, 3)],
            [segment(4, 2), segment(4, 3)],
        ];
        let routes = segments
            .iter()
            .flatten()
            .flat_map(|one| [(*one, 0), (*one, 1)]);
        let routes: Vec<(Segment, u8)> = routes.collect();
        let links: Vec<SharedLink> = (0..3)
            .map(|nth| {
                let crossing = routes.iter().filter(|_| rng.below(2) == 0);
                link(&nth.to_string(), &crossing.copied().collect::<Vec<_>>())
            })
            .collect();
        let book = LinkBook::new(&links);
        let mut interfaces = segments.map(|pair| Interface::new(&book, &pair, Duration::ZERO));
        let mut wanted: [Reservations; 2] = Default::default();
        for step in 0..STEPS {
            let nth = rng.below(2) as usize;
            let mut changes = Vec::new();
            for _ in 0..=rng.below(2) {
                let id = u128::from(4 * nth as u64 + rng.below(4));
                let on_segment = segments[nth][rng.below(2) as usize];
                // a reservation keeps its ports and its route
                let (place, route) = wanted[nth]
                    .get(&id)
                    .map_or_else(|| (on_segment, rng.below(2) as u8), |one| (one.0, one.1));
                let mbps = rng.below(3) * 30;
                changes.push(on(route, change(id, place, mbps)));
                if mbps == 0 {
                    wanted[nth].remove(&id);
                } else {
                    wanted[nth].insert(id, (place, route, mbps));
                }
            }
            assert_eq!(interfaces[nth].apply(step, &changes), []);
            check(&links, &interfaces, &wanted, &segments);
            interfaces[1 - nth].apply(step, &[]);
            check(&links, &interfaces, &wanted, &segments);
            let waiting = interfaces.iter().filter(|one| one.devices.waits_for_link());
            waits += waiting.count();
        }
    }
    println!("{waits} waits");
    assert!(waits > 100, "{waits}");
}

/// Fails unless the rates of all devices can be divided into routes that ask for them, so that every link has room.
fn check(
    links: &[SharedLink],
    interfaces: &[Interface; 2],
    wanted: &[Reservations; 2],
    segments: &[[Segment; 2]; 2],
) {
    let mut circuits = Vec::new();
    for (nth, interface) in interfaces.iter().enumerate() {
        for segment in segments[nth] {
            let asked = [0, 1].map(|route| {
                let here = wanted[nth].values();
                let here = here.filter(|one| (one.0, one.1) == (segment, route));
                here.map(|one| one.2).sum::<u64>()
            });
            circuits.push((segment, interface.mbps(segment), asked));
        }
    }
    let mut used = vec![0; links.len()];
    assert!(
        has_division(links, &circuits, &mut used),
        "{circuits:?} of {links:?}"
    );
}

/// Tries all divisions of the first circuit beside those of the others.
fn has_division(
    links: &[SharedLink],
    circuits: &[(Segment, u64, [u64; 2])],
    used: &mut [u64],
) -> bool {
    let Some(((segment, rate, asked), others)) = circuits.split_first() else {
        return used.iter().all(|sum| *sum <= 100);
    };
    let firsts = (0..=asked[0].min(*rate)).step_by(30);
    let mut divisions = firsts.map(|first| [first, rate - first]);
    divisions.any(|parts| {
        let before = used.to_vec();
        for (link, sum) in links.iter().zip(used.iter_mut()) {
            for (route, part) in (0..).zip(parts) {
                let crosses = link.routes.contains(&(*segment, route));
                *sum += if crosses { part } else { 0 };
            }
        }
        let is_one = parts[1] <= asked[1] && has_division(links, others, used);
        used.copy_from_slice(&before);
        is_one
    })
}

#[test]
fn kept_rates_are_those_of_the_same_routes() {
    let book = LinkBook::new(&[]);
    let rates = |pairs: &[(u8, u64)]| -> RouteRates { pairs.iter().copied().collect() };
    assert_eq!(book.kept(MOVING, &rates(&[(0, 5)])), rates(&[]));
    book.set(
        Instant::ZERO,
        MOVING,
        &rates(&[(0, 5), (1, 7)]),
        Duration::ZERO,
    );
    let kept = |pairs: &[(u8, u64)]| book.kept(MOVING, &rates(pairs));
    assert_eq!(kept(&[(0, 3), (1, 9), (2, 4)]), rates(&[(0, 3), (1, 7)]));
    assert_eq!(kept(&[(2, 9)]), rates(&[]));
}

const WORLDS: u64 = 60;
const STEPS: u64 = 60;
