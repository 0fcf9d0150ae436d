//! Increases that wait for capacity which does not become free.

use std::collections::BTreeSet;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_circuit::driver::InstalledCircuit;
use lighthaul_stargate::{RateChange, Segment};

use crate::devices::DeviceFault;
use crate::devices::link_book::LinkBook;
use crate::devices::segment_circuit::id_of;
use crate::devices::tests::example::{Interface, change, link, segment};

const ENDED: Segment = segment(1, 2);
const NEXT: Segment = segment(3, 4);
const GUARD: Duration = Duration::from_secs(2);

/// Returns two interfaces whose circuits share a link of 100 Mb/s. The first one cannot remove its circuit of 80 Mb/s,
/// whose path has ended.
fn stuck() -> (Interface, Interface) {
    let links = LinkBook::new(&[link("a-b", &[(ENDED, 0), (NEXT, 0)])]);
    let most = Rate::from_mbps(1000);
    links.expect(("eth1", GUARD), most, BTreeSet::from([ENDED]));
    links.expect(("eth3", Duration::ZERO), most, BTreeSet::from([NEXT]));
    let mut first = Interface::new(&links, &[ENDED], GUARD);
    let mut second = Interface::new(&links, &[NEXT], Duration::ZERO);
    assert_eq!(first.reset(0, &[change(1, ENDED, 80)]), []);
    assert_eq!(second.reset(0, &[change(2, NEXT, 20)]), []);
    assert_eq!(first.apply(0, &[]), []);
    first.device.fail_removals(usize::MAX);
    assert_eq!(first.apply(1000, &[change(1, ENDED, 0)]), []);
    (first, second)
}

fn circuits(faults: &[DeviceFault]) -> Vec<(lighthaul_stargate::Key, u8)> {
    faults.iter().map(|one| one.circuit).collect()
}

fn circuit(id: u128) -> (lighthaul_stargate::Key, u8) {
    change(id, NEXT, 1).circuit
}

#[test]
fn increase_that_a_refused_removal_blocks_is_a_fault_after_the_guard_time() {
    let (mut first, mut second) = stuck();
    assert_eq!(second.apply(1000, &[change(3, NEXT, 60)]), []);
    assert_eq!(second.apply(182_999, &[]), []);
    let faults = second.apply(183_000, &[]);
    assert_eq!(circuits(&faults), [circuit(3)]);
    assert!(faults[0].why.contains("link a-b"), "{faults:?}");
    assert!(faults[0].why.contains("port 3 to port 4"), "{faults:?}");
    // it is reported once, and the other path keeps its rate
    assert_eq!(second.apply(184_000, &[]), []);
    assert_eq!(second.mbps(NEXT), 20);
    // a later path has the same time
    let next = [change(3, NEXT, 0), change(4, NEXT, 70)];
    assert_eq!(second.apply(190_000, &next), []);
    assert_eq!(second.apply(371_999, &[]), []);
    assert_eq!(circuits(&second.apply(372_000, &[])), [circuit(4)]);
    // once the circuit is gone, the capacity can be used
    first.device.fail_removals(0);
    assert_eq!(first.apply(380_000, &[]), []);
    assert_eq!(second.apply(382_000, &[]), []);
    assert_eq!(second.mbps(NEXT), 90);
}

#[test]
fn path_that_needs_less_is_no_fault_while_another_one_waits() {
    let (_first, mut second) = stuck();
    let changes = [change(2, NEXT, 10), change(3, NEXT, 60)];
    assert_eq!(second.apply(1000, &changes), []);
    // also if the path that waits needs less in the meantime
    assert_eq!(second.apply(4000, &[change(3, NEXT, 50)]), []);
    assert_eq!(circuits(&second.apply(183_000, &[])), [circuit(3)]);
    assert_eq!(second.apply(400_000, &[]), []);
}

#[test]
fn increase_of_a_path_is_a_fault_and_a_path_with_its_old_rate_is_none() {
    let (_first, mut second) = stuck();
    assert_eq!(second.apply(1000, &[change(2, NEXT, 60)]), []);
    assert_eq!(circuits(&second.apply(183_000, &[])), [circuit(2)]);
    let (_first, mut second) = stuck();
    let changes = [change(2, NEXT, 20), change(3, NEXT, 60)];
    assert_eq!(second.apply(1000, &changes), []);
    assert_eq!(circuits(&second.apply(183_000, &[])), [circuit(3)]);
}

#[test]
fn path_that_moves_to_a_full_link_is_a_fault_after_the_guard_time() {
    let (_first, mut second) = stuck();
    // the other route does not cross the link
    let aside = RateChange {
        route: 1,
        ..change(3, NEXT, 60)
    };
    assert_eq!(second.apply(1000, &[aside]), []);
    assert_eq!(second.mbps(NEXT), 80);
    assert_eq!(second.apply(2000, &[change(3, NEXT, 60)]), []);
    assert_eq!(second.mbps(NEXT), 20);
    assert_eq!(second.apply(183_999, &[]), []);
    assert_eq!(circuits(&second.apply(184_000, &[])), [circuit(3)]);
}

#[test]
fn increase_beside_an_old_circuit_that_cannot_be_removed_is_a_fault() {
    let mut interface = Interface::new(&LinkBook::default(), &[ENDED], GUARD);
    let old: RateChange = change(9, segment(7, 8), 1);
    interface.device.install(InstalledCircuit {
        id: id_of(old.segment),
        flow: None,
        rate: Some(Rate::from_mbps(900)),
    });
    interface.device.fail_removals(usize::MAX);
    assert_eq!(interface.reset(0, &[change(1, ENDED, 300)]), []);
    assert_eq!(interface.apply(181_999, &[]), []);
    let faults = interface.apply(182_000, &[]);
    assert_eq!(circuits(&faults), [change(1, ENDED, 1).circuit]);
    assert!(faults[0].why.contains("its interface"), "{faults:?}");
}

#[test]
fn increase_waits_for_a_device_that_is_read_late() {
    let links = LinkBook::new(&[link("a-b", &[(ENDED, 0), (NEXT, 0)])]);
    let most = Rate::from_mbps(1000);
    links.expect(("eth1", GUARD), most, BTreeSet::from([ENDED]));
    let mut first = Interface::new(&links, &[ENDED], GUARD);
    let mut second = Interface::new(&links, &[NEXT], Duration::ZERO);
    assert_eq!(second.reset(0, &[change(3, NEXT, 60)]), []);
    assert_eq!(second.apply(100_000, &[]), []);
    assert_eq!(second.mbps(NEXT), 0);
    // it has a circuit of an earlier run
    first.device.install(InstalledCircuit {
        id: id_of(ENDED),
        flow: None,
        rate: Some(Rate::from_mbps(80)),
    });
    assert_eq!(first.reset(100_000, &[]), []);
    assert_eq!(second.apply(101_999, &[]), []);
    assert_eq!(second.apply(102_000, &[]), []);
    assert_eq!(second.mbps(NEXT), 60);
}
