//! Capacity of circuits from before the start, and of failed decreases: no other circuit gets it before it is free.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_circuit::driver::InstalledCircuit;
use lighthaul_circuit::sim_device::{FaultModel, SimFault};
use lighthaul_stargate::Segment;

use crate::devices::cleaning::OldCircuits;
use crate::devices::link_book::LinkBook;
use crate::devices::segment_circuit::id_of;
use crate::devices::tests::example::{Interface, carried, change, link, logged, segment};

const OLD: Segment = segment(1, 2);
const NEW: Segment = segment(3, 4);
const GUARD: Duration = Duration::from_millis(200);

/// Returns two interfaces whose circuits share a link of 100 Mb/s, on these routes. The first device has an old circuit
/// of these ports, without a reservation, of 80 Mb/s.
fn interfaces(routes: [u8; 2], old: Segment) -> (Interface, Interface) {
    let links = LinkBook::new(&[link("a-b", &[(OLD, routes[0]), (NEW, routes[1])])]);
    let first = Interface::new(&links, &[OLD], GUARD);
    let second = Interface::new(&links, &[NEW], GUARD);
    install(&first, old, 80);
    (first, second)
}

fn install(interface: &Interface, segment: Segment, mbps: u64) {
    let flow = format!("udp {}", segment.ingress.0);
    interface.device.install(InstalledCircuit {
        id: id_of(segment),
        flow: flow.parse().ok(),
        rate: Some(Rate::from_mbps(mbps)),
    });
}

/// Makes all calls of a device fail, or none.
fn fail(interface: &Interface, is_failing: bool) {
    interface.device.set_fault_model(FaultModel {
        latency_max: Duration::ZERO,
        fail_ppb: if is_failing { 1_000_000_000 } else { 0 },
    });
}

#[test]
fn capacity_of_an_old_circuit_is_free_after_its_removal_and_a_guard_time() {
    // also if the ports of the circuit are not configured any more
    for old in [OLD, segment(7, 8)] {
        let (mut first, mut second) = interfaces([0, 0], old);
        first.device.fail_removals(1);
        assert_eq!(first.reset(0, &[]), []);
        assert_eq!(first.mbps(old), 80);
        // what is free carries an increase at once
        assert_eq!(second.reset(0, &[change(1, NEW, 20)]), []);
        assert_eq!(second.mbps(NEW), 20);
        assert_eq!(second.apply(10, &[change(1, NEW, 60)]), []);
        assert_eq!(second.mbps(NEW), 20);
        assert!(second.devices.waits_for_link());
        assert_eq!(first.apply(1000, &[]), []);
        assert_eq!(first.mbps(old), 0);
        assert_eq!(second.apply(1199, &[]), []);
        assert_eq!(second.mbps(NEW), 20);
        assert_eq!(second.apply(1200, &[]), []);
        assert_eq!(second.mbps(NEW), 60);
    }
}

#[test]
fn interface_waits_for_the_capacity_of_a_removed_circuit_that_had_a_rate() {
    let old = segment(7, 8);
    for rate in [None, Some(Rate::from_mbps(10))] {
        let mut interface = Interface::new(&LinkBook::default(), &[NEW], GUARD);
        interface.device.install(InstalledCircuit {
            id: id_of(old),
            flow: None,
            rate,
        });
        assert_eq!(interface.reset(0, &[change(1, NEW, 300)]), []);
        assert!(!interface.device.circuits().contains_key(&id_of(old)));
        let is_waiting = rate.is_some();
        let expected = if is_waiting { 0 } else { 300 };
        assert_eq!(interface.apply(199, &[]), []);
        assert_eq!(interface.mbps(NEW), expected);
        assert_eq!(interface.apply(200, &[]), []);
        assert_eq!(interface.mbps(NEW), 300);
    }
}

#[test]
fn old_circuit_uses_only_the_links_of_its_ports() {
    let links = LinkBook::new(&[link("a-b", &[(NEW, 0), (segment(5, 6), 0)])]);
    let mut first = Interface::new(&links, &[OLD], GUARD);
    let mut second = Interface::new(&links, &[NEW], GUARD);
    install(&first, OLD, 80);
    first.device.fail_removals(1);
    assert_eq!(first.reset(0, &[]), []);
    assert_eq!(second.reset(0, &[change(1, NEW, 100)]), []);
    assert_eq!((first.mbps(OLD), second.mbps(NEW)), (80, 100));
}

#[test]
fn old_circuit_that_is_kept_counts_on_each_route_until_it_is_changed() {
    // the reservation has another route than the link
    let (mut first, mut second) = interfaces([1, 0], OLD);
    first.device.fail_change(Some(SimFault::Refused), 0);
    assert_eq!(first.reset(0, &[change(1, OLD, 30)]).len(), 1);
    assert_eq!(first.mbps(OLD), 80);
    assert_eq!(second.reset(0, &[change(2, NEW, 60)]), []);
    assert_eq!(second.mbps(NEW), 0);
    assert_eq!(first.apply(1000, &[]), []);
    assert_eq!(first.mbps(OLD), 30);
    assert_eq!(second.apply(1199, &[]), []);
    assert_eq!(second.mbps(NEW), 0);
    assert_eq!(second.apply(1200, &[]), []);
    assert_eq!(second.mbps(NEW), 60);
}

#[test]
fn failing_removal_of_one_circuit_keeps_no_route_of_another_circuit() {
    let links = LinkBook::new(&[link("c-d", &[(OLD, 1), (NEW, 0)])]);
    let mut first = Interface::new(&links, &[OLD], GUARD);
    let mut second = Interface::new(&links, &[NEW], GUARD);
    install(&first, OLD, 30);
    let flow = "tcp 9".parse().ok();
    let (id, rate) = (id_of(segment(7, 8)), None);
    first.device.install(InstalledCircuit { id, flow, rate });
    first.device.fail_removals(9);
    assert_eq!(first.reset(0, &[change(1, OLD, 30)]), []);
    assert_eq!(first.apply(1000, &[]), []);
    assert_eq!(second.reset(1100, &[change(2, NEW, 100)]), []);
    assert_eq!((first.mbps(OLD), second.mbps(NEW)), (30, 100));
}

#[test]
fn increase_beside_an_old_circuit_of_the_same_interface_waits_for_its_removal() {
    let links = LinkBook::new(&[]);
    let mut interface = Interface::new(&links, &[OLD, NEW], Duration::ZERO);
    install(&interface, OLD, 700);
    interface.device.fail_removals(2);
    assert_eq!(interface.reset(0, &[change(1, NEW, 300)]), []);
    assert_eq!(interface.mbps(NEW), 300);
    assert_eq!(interface.apply(10, &[change(1, NEW, 301)]), []);
    assert_eq!((interface.mbps(OLD), interface.mbps(NEW)), (700, 300));
    assert_eq!(interface.apply(20, &[]), []);
    assert_eq!((interface.mbps(OLD), interface.mbps(NEW)), (0, 301));
}

#[test]
fn circuits_of_an_interface_count_with_its_highest_rate_until_they_were_read() {
    let links = LinkBook::new(&[
        link("a-b", &[(OLD, 0), (NEW, 0)]),
        link("c-d", &[(segment(5, 6), 0), (NEW, 1)]),
    ]);
    links.expect(("eth1", GUARD), Rate::from_mbps(70), BTreeSet::from([OLD]));
    let take =
        |route, mbps: u64| links.take(Instant::ZERO, NEW, &[(route, mbps * 1_000_000)].into());
    assert!(!take(0, 31));
    assert!(take(0, 30));
    assert!(take(1, 100), "a link that the interface does not use");
    let nothing = OldCircuits::default();
    links.know(
        Instant::ZERO,
        ("eth1", GUARD),
        &nothing,
        &BTreeSet::from([OLD]),
    );
    assert!(take(0, 100));
}

#[test]
fn old_circuit_with_other_packets_is_replaced() {
    let (mut first, _) = interfaces([0, 0], OLD);
    first.device.install(InstalledCircuit {
        id: id_of(OLD),
        flow: "tcp 9".parse().ok(),
        rate: Some(Rate::from_mbps(80)),
    });
    // the rate is the wanted one
    assert_eq!(first.reset(0, &[change(1, OLD, 80)]), []);
    assert_eq!(first.apply(200, &[]), []);
    let found = first.device.circuits();
    assert_eq!(found[&id_of(OLD)].flow, "udp 1".parse().ok());
    assert_eq!(first.mbps(OLD), 80);
}

#[test]
fn devices_begin_no_change_while_they_stop() {
    let (mut first, mut second) = interfaces([0, 0], segment(7, 8));
    let stop = |one: &Interface| one.devices.stop_flag().store(true, Ordering::Relaxed);
    stop(&first);
    assert_eq!(first.reset(0, &[change(1, OLD, 10)]), []);
    assert_eq!((first.mbps(segment(7, 8)), first.mbps(OLD)), (80, 0));
    assert_eq!(second.reset(0, &[change(2, NEW, 10)]), []);
    stop(&second);
    assert_eq!(second.apply(10, &[change(2, NEW, 5)]), []);
    assert_eq!(second.mbps(NEW), 10);
}

#[test]
fn fault_of_old_circuits_is_logged_once() {
    let (mut first, _) = interfaces([0, 0], OLD);
    first.device.fail_removals(3);
    let lines = logged("cannot remove circuits", || {
        first.reset(0, &[]);
        first.apply(10, &[]);
        first.apply(20, &[]);
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("eth1"), "{lines:?}");
}

#[test]
fn paths_stay_while_their_device_cannot_be_read_after_a_start() {
    // the device has the circuit of the path, or has lost it
    for mbps in [80, 0] {
        let (mut first, _) = interfaces([0, 0], OLD);
        if mbps == 0 {
            first.device.forget(id_of(OLD));
        }
        fail(&first, true);
        let lines = logged("cannot be read since the start", || {
            assert_eq!(first.reset(0, &[change(1, OLD, 80)]), []);
            for millis in (1000..1_000_000).step_by(20_000) {
                assert_eq!(first.apply(millis, &[]), []);
            }
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!(first.mbps(OLD), mbps);
        assert_eq!(carried(&first), [(1, None)]);
        // its next rate waits, too
        assert_eq!(first.apply(1_000_000, &[change(1, OLD, 90)]), []);
        assert_eq!(first.apply(2_000_000, &[]), []);
        fail(&first, false);
        assert_eq!(first.apply(2_001_000, &[]), []);
        assert_eq!(carried(&first), [(1, Some(90))]);
    }
}

#[test]
fn path_that_begins_at_a_device_that_cannot_be_read_fails_after_some_time() {
    let (mut first, _) = interfaces([0, 0], OLD);
    fail(&first, true);
    assert_eq!(first.reset(0, &[]), []);
    assert_eq!(first.apply(1000, &[change(1, OLD, 90)]), []);
    assert_eq!(first.apply(181_199, &[]), []);
    let faults = first.apply(181_200, &[]);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].why.contains("the call failed"), "{faults:?}");
    assert_eq!(first.apply(182_000, &[]), []);
}

#[test]
fn failed_decrease_keeps_its_capacity_of_a_link_of_one_interface() {
    let links = LinkBook::new(&[link("a-b", &[(OLD, 0), (NEW, 0)])]);
    let mut interface = Interface::new(&links, &[OLD, NEW], GUARD);
    assert_eq!(interface.apply(0, &[change(1, OLD, 80)]), []);
    interface.device.fail_change(Some(SimFault::Refused), 0);
    let next = [change(1, OLD, 20), change(2, NEW, 60)];
    assert_eq!(interface.apply(10, &next).len(), 1);
    assert_eq!((interface.mbps(OLD), interface.mbps(NEW)), (80, 0));
    assert_eq!(interface.apply(1000, &[]), []);
    assert_eq!((interface.mbps(OLD), interface.mbps(NEW)), (20, 0));
    assert_eq!(interface.apply(1200, &[]), []);
    assert_eq!((interface.mbps(OLD), interface.mbps(NEW)), (20, 60));
}
