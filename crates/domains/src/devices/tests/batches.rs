//! Changes of one time, which are few calls of a driver: for a device with NETCONF, each is a commit.

use std::collections::BTreeSet;
use std::time::Duration;

use lighthaul_circuit::sim_device::SimFault;
use lighthaul_stargate::{RateChange, Segment};

use crate::devices::Devices;
use crate::devices::link_book::LinkBook;
use crate::devices::segment_circuit::id_of;
use crate::devices::tests::example::{Interface, change, segment};

const fn pair(nth: u32) -> Segment {
    segment(1, 10 + nth)
}

/// Returns an interface with seven pairs of ports, of which the first four have paths of 200 Mb/s.
fn begun(guard: Duration) -> Interface {
    let pairs: Vec<Segment> = (0..7).map(pair).collect();
    let mut interface = Interface::new(&LinkBook::default(), &pairs, guard);
    assert_eq!(interface.reset(0, &paths([0; 7], BEGUN)), []);
    assert_eq!(interface.device.take_calls(), [4]);
    interface
}

/// Returns the changes of one path for each pair of ports between these rates.
fn paths(before: [u64; 7], after: [u64; 7]) -> Vec<RateChange> {
    let paths = (0..).zip(before.into_iter().zip(after));
    let changed = paths.filter(|(_, (before, after))| before != after);
    let changed = changed.map(|(nth, (_, mbps))| change(u128::from(nth), pair(nth), mbps));
    changed.collect()
}

const BEGUN: [u64; 7] = [200, 200, 200, 200, 0, 0, 0];

fn rates(interface: &Interface) -> [u64; 7] {
    std::array::from_fn(|nth| interface.mbps(pair(nth as u32)))
}

#[test]
fn changes_of_one_time_are_one_call_for_decreases_and_one_for_increases() {
    let mut interface = begun(Duration::ZERO);
    // two paths end, one needs less, one needs more, and three begin
    let next = [0, 0, 100, 300, 200, 200, 200];
    assert_eq!(interface.apply(1000, &paths(BEGUN, next)), []);
    assert_eq!(rates(&interface), next);
    assert_eq!(interface.device.take_calls(), [3, 4]);
    // what has ended is removed when no change is due, one circuit at a time
    assert!(!interface.devices.is_empty());
    for _ in 0..2 {
        assert_eq!(interface.apply(1000, &[]), []);
        assert_eq!(interface.device.take_calls(), [1]);
    }
    assert_eq!(interface.apply(1000, &[]), []);
    assert!(interface.device.take_calls().is_empty());
    assert_eq!(interface.device.circuits().len(), 5);
}

#[test]
fn inspection_follows_the_removal_of_closed_circuits() {
    let mut interface = begun(Duration::ZERO);
    // it is due, and would remove both circuits that are closed
    let ended = paths(BEGUN, [0, 0, 200, 200, 0, 0, 0]);
    assert_eq!(interface.apply(31_000, &ended), []);
    assert_eq!(interface.device.circuits().len(), 4);
    for left in [3, 2] {
        assert_eq!(interface.devices.next_call(), Some(Duration::ZERO));
        assert_eq!(interface.apply(31_000, &[]), []);
        assert_eq!(interface.device.circuits().len(), left);
    }
    assert_eq!(interface.devices.next_call(), None);
}

#[test]
fn path_that_ends_alone_is_removed_at_once() {
    let mut interface = begun(Duration::ZERO);
    let next = [0, 200, 200, 200, 0, 0, 0];
    assert_eq!(interface.apply(1000, &paths(BEGUN, next)), []);
    assert_eq!(interface.device.take_calls(), [1]);
    assert_eq!(interface.device.circuits().len(), 3);
}

#[test]
fn fault_of_one_change_is_that_of_its_path_only() {
    let mut interface = begun(Duration::ZERO);
    // the second of the decreases is refused
    interface.device.fail_change(Some(SimFault::Refused), 1);
    let faults = interface.apply(1000, &paths(BEGUN, [100, 100, 100, 200, 0, 0, 0]));
    let circuits: Vec<_> = faults.iter().map(|one| one.circuit).collect();
    assert_eq!(circuits, [change(1, pair(1), 1).circuit]);
    assert_eq!(rates(&interface), [100, 200, 100, 200, 0, 0, 0]);
}

#[test]
fn closed_circuit_that_is_needed_again_is_not_removed() {
    let mut interface = begun(Duration::ZERO);
    let [ended, again] = [[0, 0, 200, 200, 0, 0, 0], [150, 0, 200, 200, 0, 0, 0]];
    assert_eq!(interface.apply(1000, &paths(BEGUN, ended)), []);
    assert_eq!(interface.apply(1000, &paths(ended, again)), []);
    for _ in 0..4 {
        assert_eq!(interface.apply(1000, &[]), []);
    }
    assert_eq!(rates(&interface), again);
    let left: BTreeSet<_> = interface.device.circuits().into_keys().collect();
    assert_eq!(left, [0, 2, 3].map(|nth| id_of(pair(nth))).into());
}

#[test]
fn removal_of_a_closed_circuit_that_fails_is_repeated_and_blocks_nothing() {
    let mut interface = begun(Duration::from_millis(200));
    assert_eq!(interface.apply(1000, &paths(BEGUN, [0; 7])), []);
    interface.device.fail_removals(usize::MAX);
    for _ in 0..6 {
        assert_eq!(interface.apply(1000, &[]), []);
    }
    assert!(!interface.devices.is_empty());
    // the capacity is free after the guard time of the changes that have closed them
    let next = [0, 0, 0, 0, 500, 500, 0];
    assert_eq!(interface.apply(1199, &paths([0; 7], next)), []);
    assert_eq!(rates(&interface), [0; 7]);
    assert_eq!(interface.apply(1200, &[]), []);
    assert_eq!(rates(&interface), next);
    interface.device.fail_removals(0);
    assert_eq!(interface.apply(1300, &paths(next, [0; 7])), []);
    for _ in 0..7 {
        assert_eq!(interface.apply(2000, &[]), []);
    }
    assert_eq!(interface.device.circuits().len(), 0);
    assert!(interface.devices.is_empty());
}
