//! Changes of rates, in order and after faults.

use std::collections::BTreeSet;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::driver::{Capabilities, Driver, InstalledCircuit};
use lighthaul_circuit::sim_device::{FaultModel, SimDevice, SimFault};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_stargate::{RateChange, Segment};

use crate::devices::driven::DrivenDevices;
use crate::devices::link_book::LinkBook;
use crate::devices::segment_circuit::id_of;
use crate::devices::tests::example::{CALM, CAPABILITIES, change, logged, segment, sim_device};
use crate::devices::{Devices, SegmentCircuit, SharedLink};

const IN: Segment = segment(1, 2);
const OUT: Segment = segment(2, 1);

/// Returns a device of 1 Gb/s with both directions, and its driver.
fn devices() -> (DrivenDevices, SimDevice) {
    with_guard(Duration::ZERO)
}

fn with_guard(guard: Duration) -> (DrivenDevices, SimDevice) {
    let device = sim_device(guard);
    (with_driver(&device), device)
}

fn with_driver(device: &SimDevice) -> DrivenDevices {
    let circuit = |port: u16| SegmentCircuit {
        interface: "eth1".to_owned(),
        flow: format!("udp 10.0.0.2 {port}").parse().unwrap(),
    };
    let driver: Box<dyn Driver> = Box::new(device.clone());
    let drivers = [("eth1".to_owned(), driver)].into();
    let circuits = [(IN, circuit(1)), (OUT, circuit(2))].into();
    DrivenDevices::new(drivers, circuits)
}

fn rates(device: &SimDevice) -> Vec<(u64, u64)> {
    let circuits = device.circuits();
    let rate = |(id, one): (&CircuitId, &InstalledCircuit)| {
        (id.0, one.rate.map_or(0, |rate| rate.as_bps() / 1_000_000))
    };
    circuits.iter().map(rate).collect()
}

#[test]
fn circuit_of_a_pair_of_ports_has_the_sum_of_its_reservations() {
    let (mut devices, device) = devices();
    let (one, two) = (id_of(IN).0, id_of(OUT).0);
    let at = Instant::ZERO;
    let first = [change(1, IN, 300), change(2, IN, 200), change(3, OUT, 100)];
    assert_eq!(devices.apply(at, &first), []);
    assert_eq!(rates(&device), [(one, 500), (two, 100)]);
    // the increase fits only after the decrease, although its pair of ports comes first
    let second = [change(3, OUT, 0), change(1, IN, 800)];
    assert_eq!(devices.apply(at, &second), []);
    assert_eq!(rates(&device), [(one, 1000)]);
    assert_eq!(devices.apply(at, &[change(1, IN, 0), change(2, IN, 0)]), []);
    assert_eq!(rates(&device), []);
}

#[test]
fn timer_of_a_circuit_ends_after_its_last_reservation() {
    let device = SimDevice::new(
        Capabilities {
            timer_max: Some(Duration::from_hours(9)),
            ..CAPABILITIES
        },
        CALM,
        1,
    );
    let mut devices = with_driver(&device);
    let left = |seconds, change: RateChange| RateChange {
        left: Duration::from_secs(seconds),
        ..change
    };
    let mut apply = |millis: u64, changes: &[RateChange]| {
        assert_eq!(devices.apply_at(&|| at(millis), changes), []);
        device.timer(id_of(IN)).map(|timer| timer.as_secs())
    };
    let begun = [left(100, change(1, IN, 300)), left(40, change(2, IN, 200))];
    assert_eq!(apply(0, &begun), Some(105));
    // the first reservation is longer now, so the timer is renewed after half of its time
    assert_eq!(apply(10_000, &[left(190, change(1, IN, 300))]), Some(105));
    assert_eq!(apply(52_499, &[]), Some(105));
    assert_eq!(apply(52_500, &[]), Some(152));
    assert_eq!(apply(60_000, &[change(2, IN, 0)]), Some(145));
    assert_eq!(apply(60_000, &[change(1, IN, 0)]), None);
}

#[test]
fn timer_of_a_circuit_is_renewed_while_its_increase_waits() {
    let device = SimDevice::new(
        Capabilities {
            timer_max: Some(Duration::from_mins(1)),
            ..CAPABILITIES
        },
        CALM,
        1,
    );
    // another interface has so much of the link that the increase waits
    let link = SharedLink {
        name: "a-b".to_owned(),
        capacity: Rate::from_mbps(1000),
        routes: [(IN, 0), (OUT, 0)].into(),
    };
    let links = LinkBook::new(&[link]);
    assert!(links.take(at(0), OUT, &[(0, 600_000_000)].into()));
    let mut devices = with_driver(&device).with_links(links, Clock::start());
    let long = |change: RateChange| RateChange {
        left: Duration::from_mins(9),
        ..change
    };
    devices.apply_at(&|| at(0), &[long(change(1, IN, 300))]);
    devices.apply_at(&|| at(1000), &[long(change(2, IN, 200))]);
    for second in 1..200 {
        let now = at(second * 1000);
        devices.apply_at(&|| now, &[]);
        assert_eq!(rates(&device), [(id_of(IN).0, 300)]);
        assert_eq!(devices.expiring(now), BTreeSet::new(), "{second}");
    }
}

#[test]
fn change_that_fails_is_reported_and_tried_again() {
    let (mut devices, device) = devices();
    let at = Instant::ZERO;
    let mut model = FaultModel {
        latency_max: Duration::ZERO,
        fail_ppb: 1_000_000_000,
    };
    assert_eq!(devices.apply(at, &[change(1, IN, 300)]), []);
    device.set_fault_model(model);
    let failed = devices.apply(at, &[change(1, IN, 0), change(2, OUT, 100)]);
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0].circuit, change(2, OUT, 100).circuit);
    assert_eq!(rates(&device), [(id_of(IN).0, 300)]);
    model.fail_ppb = 0;
    device.set_fault_model(model);
    assert_eq!(devices.apply(at, &[change(2, OUT, 0)]), []);
    assert_eq!(rates(&device), []);
    let unknown = devices.apply(at, &[change(4, segment(7, 8), 1)]);
    assert!(unknown[0].why.contains("[[circuit]]"), "{unknown:?}");
    let excess = devices.apply(at, &[change(5, IN, 2000)]);
    assert!(excess[0].why.contains("channel"), "{excess:?}");
}

#[test]
fn rate_is_set_again_after_a_lost_answer() {
    let (mut devices, device) = devices();
    let (at, id) = (Instant::ZERO, id_of(IN).0);
    assert_eq!(devices.apply(at, &[change(1, IN, 300)]), []);
    device.fail_change(Some(SimFault::AnswerLost), 0);
    assert_eq!(devices.apply(at, &[change(1, IN, 600)]), []);
    assert_eq!(rates(&device), [(id, 600)]);
    assert_eq!(devices.apply(at, &[change(1, IN, 300)]), []);
    assert_eq!(rates(&device), [(id, 300)]);
}

#[test]
fn start_removes_circuits_without_present_traffic() {
    let (mut devices, device) = devices();
    let installed = |segment, mbps: u64| InstalledCircuit {
        id: id_of(segment),
        flow: None,
        rate: Rate::from_bps(mbps * 1_000_000),
    };
    for old in [
        installed(IN, 700),
        installed(OUT, 10),
        installed(segment(5, 6), 1),
    ] {
        device.install(old);
    }
    let present = [change(1, IN, 400)];
    assert_eq!(devices.reset(Instant::ZERO, &present), []);
    assert_eq!(rates(&device), [(id_of(IN).0, 400)]);
}

#[test]
fn removals_that_fail_at_the_start_are_repeated() {
    let (mut devices, device) = devices();
    let mut model = FaultModel {
        latency_max: Duration::ZERO,
        fail_ppb: 1_000_000_000,
    };
    device.install(InstalledCircuit {
        id: id_of(OUT),
        flow: None,
        rate: Some(Rate::from_mbps(700)),
    });
    device.set_fault_model(model);
    let at = Instant::ZERO;
    assert_eq!(devices.reset(at, &[]), []);
    assert_eq!(rates(&device), [(id_of(OUT).0, 700)]);
    model.fail_ppb = 0;
    device.set_fault_model(model);
    assert_eq!(devices.apply(at, &[]), []);
    assert_eq!(rates(&device), []);
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

#[test]
fn increase_waits_for_the_guard_time_of_the_needed_capacity() {
    let (mut devices, device) = with_guard(Duration::from_millis(200));
    let (one, two) = (id_of(IN).0, id_of(OUT).0);
    let mut apply = |millis: u64, changes: &[RateChange]| {
        let faults = devices.apply_at(&|| at(millis), changes);
        assert_eq!(faults, []);
        (rates(&device), devices.next_end())
    };
    let begun = [change(1, IN, 600), change(2, OUT, 200)];
    assert_eq!(apply(0, &begun), (vec![(one, 600), (two, 200)], None));
    // 200 Mb/s were free all the time, and are not enough for both
    let second = [change(1, IN, 500), change(2, OUT, 400)];
    let waiting = (vec![(one, 500), (two, 200)], Some(at(1200)));
    assert_eq!(
        apply(1000, &[change(3, OUT, 0), change(1, IN, 500)]).1,
        None
    );
    assert_eq!(apply(1000, &[change(2, OUT, 450)]), waiting);
    assert_eq!(apply(1199, &[]), waiting);
    assert_eq!(apply(1200, &[]), (vec![(one, 500), (two, 450)], None));
    assert_eq!(
        apply(2000, &[change(2, OUT, 300)]).0,
        [(one, 500), (two, 300)]
    );
    // what is free carries the increase at once
    assert_eq!(
        apply(2001, &[change(1, IN, 550)]),
        (vec![(one, 550), (two, 300)], None)
    );
    assert_eq!(apply(3000, &second).0, [(one, 500), (two, 400)]);
    assert_eq!(apply(3100, &[change(1, IN, 0)]).0, [(two, 400)]);
    let removed = |end: u64| (vec![(two, 400)], Some(at(end)));
    assert_eq!(apply(3150, &[change(2, OUT, 900)]), removed(3200));
    assert_eq!(apply(3200, &[]), removed(3300));
    assert_eq!(apply(3300, &[]), (vec![(two, 900)], None));
}

#[test]
fn guard_time_of_one_interface_delays_no_other_interface() {
    let (mut devices, slow) = with_guard(Duration::from_secs(9));
    let fast = sim_device(Duration::from_millis(5));
    devices
        .interfaces
        .drivers
        .insert("eth2".to_owned(), Box::new(fast.clone()));
    let others = [segment(3, 4), segment(4, 3)];
    for other in others {
        let circuit = Circuit {
            id: id_of(other),
            interface: "eth2".to_owned(),
            ..devices.interfaces.circuits[&OUT].clone()
        };
        devices.interfaces.circuits.insert(other, circuit);
    }
    let mut apply = |millis: u64, changes: &[RateChange]| {
        assert_eq!(devices.apply_at(&|| at(millis), changes), []);
        devices.next_end()
    };
    let begun = [change(1, IN, 1000), change(2, others[0], 1000)];
    assert_eq!(apply(0, &begun), None);
    let ends = [change(1, IN, 0), change(2, others[0], 400)];
    assert_eq!(apply(100, &ends), None);
    let next = [change(3, OUT, 1000), change(4, others[1], 600)];
    assert_eq!(apply(101, &next), Some(at(105)));
    assert_eq!(apply(105, &[]), Some(at(9100)));
    assert_eq!(
        rates(&fast),
        [(id_of(others[0]).0, 400), (id_of(others[1]).0, 600)]
    );
    assert_eq!(rates(&slow), []);
    assert_eq!(apply(9100, &[]), None);
    assert_eq!(rates(&slow), [(id_of(OUT).0, 1000)]);
}

#[test]
fn circuit_reuses_its_freed_capacity_within_the_guard_time() {
    let (devices, device) = with_guard(Duration::from_secs(9));
    let link = SharedLink {
        name: "a-b".to_owned(),
        capacity: Rate::from_mbps(1000),
        routes: [(IN, 0), (OUT, 0)].into(),
    };
    let mut devices = devices.with_links(LinkBook::new(&[link]), Clock::start());
    let mut apply = |millis: u64, changes: &[RateChange]| {
        assert_eq!(devices.apply_at(&|| at(millis), changes), []);
        (rates(&device), devices.next_end())
    };
    let (one, two) = (id_of(IN).0, id_of(OUT).0);
    apply(0, &[change(1, IN, 600)]);
    assert_eq!(apply(100, &[change(1, IN, 200)]).0, [(one, 200)]);
    // the other circuit needs what the first one may still use
    let waiting = [change(2, OUT, 500)];
    assert_eq!(apply(200, &waiting), (vec![(one, 200)], Some(at(9100))));
    let again = vec![(one, 500)];
    assert_eq!(apply(300, &[change(1, IN, 500)]).0, again);
    assert_eq!(apply(9099, &[]), (again, Some(at(9100))));
    assert_eq!(apply(9100, &[]), (vec![(one, 500), (two, 500)], None));
}

#[test]
fn guard_times_of_a_link_end_by_the_common_clock() {
    let guard = Duration::from_hours(1);
    let link = SharedLink {
        name: "a-b".to_owned(),
        capacity: Rate::from_mbps(100),
        routes: [(IN, 0), (OUT, 0)].into(),
    };
    let (links, clock) = (LinkBook::new(&[link]), Clock::start());
    // the devices exist later than the clock
    pause(Duration::from_millis(50));
    let mut devices = devices().0.with_links(links.clone(), clock);
    // another interface has just freed the whole link
    let now = clock.now();
    links.set(now, IN, &[(0, 100_000_000)].into(), guard);
    links.set(now, IN, &[(0, 0)].into(), guard);
    assert_eq!(devices.apply(now, &[change(1, OUT, 50)]), []);
    let wait = devices.next_call();
    assert!(wait.is_some_and(|wait| wait <= guard), "{wait:?}");
}

#[test]
fn long_wait_for_a_link_is_logged_once_with_its_name() {
    let (devices, _device) = devices();
    let link = SharedLink {
        name: "a-b".to_owned(),
        capacity: Rate::from_mbps(100),
        routes: [(IN, 0), (OUT, 0)].into(),
    };
    // another interface has the whole link
    let links = LinkBook::new(&[link]);
    assert!(links.take(at(0), IN, &[(0, 100_000_000)].into()));
    let mut devices = devices.with_links(links, Clock::start());
    let lines = logged("an increase waits", || {
        assert_eq!(devices.apply_at(&|| at(10), &[change(1, OUT, 50)]), []);
        devices.apply_at(&|| at(5009), &[]);
    });
    assert_eq!(lines.len(), 0, "{lines:?}");
    let lines = logged("an increase waits", || {
        for millis in [5010, 6000, 60_000] {
            devices.apply_at(&|| at(millis), &[]);
        }
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("link=\"a-b\""), "{lines:?}");
}

#[test]
fn repeated_fault_of_a_change_is_logged_once() {
    let (mut devices, device) = devices();
    let apply = |devices: &mut DrivenDevices, millis: u64| {
        device.fail_change(Some(SimFault::Refused), 0);
        devices.apply_at(&|| at(millis), &[change(1, IN, 10 + millis)])
    };
    let lines = logged("a device did not change a circuit", || {
        for millis in 0..3 {
            assert_eq!(apply(&mut devices, millis).len(), 1);
        }
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[test]
fn decrease_that_fails_delays_no_increase_of_free_capacity() {
    let (mut devices, device) = with_guard(Duration::from_millis(200));
    let (one, two) = (id_of(IN).0, id_of(OUT).0);
    assert_eq!(devices.apply_at(&|| at(0), &[change(1, IN, 600)]), []);
    device.fail_change(Some(SimFault::Refused), 0);
    let changes = [change(1, IN, 300), change(2, OUT, 400)];
    let faults = devices.apply_at(&|| at(100), &changes);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(rates(&device), [(one, 600), (two, 400)]);
    assert_eq!(devices.next_end(), None);
}

#[test]
fn failed_increase_blocks_only_its_own_capacity() {
    let (mut devices, device) = with_guard(Duration::from_millis(200));
    let mut apply = |millis: u64, changes: &[RateChange]| {
        let faults = devices.apply_at(&|| at(millis), changes);
        (faults.len(), devices.next_end())
    };
    // the device may have set the rate before its answer was lost
    device.fail_change(Some(SimFault::AnswerLost), 0);
    assert_eq!(apply(0, &[change(1, IN, 600)]), (0, None));
    assert_eq!(apply(100, &[change(1, IN, 0)]), (0, None));
    assert_eq!(apply(101, &[change(2, OUT, 400)]), (0, None));
    assert_eq!(rates(&device), [(id_of(OUT).0, 400)]);
    // what it may still use waits for a guard time after the removal
    let more = [change(3, OUT, 1)];
    assert_eq!(apply(102, &more), (0, Some(at(300))));
    assert_eq!(rates(&device), [(id_of(OUT).0, 400)]);
    assert_eq!(apply(300, &[]), (0, None));
    assert_eq!(rates(&device), [(id_of(OUT).0, 401)]);
}

#[test]
fn failed_decrease_keeps_its_capacity_of_its_interface() {
    let (mut devices, device) = devices();
    let (one, two) = (id_of(IN).0, id_of(OUT).0);
    assert_eq!(devices.apply_at(&|| at(0), &[change(1, IN, 800)]), []);
    device.fail_change(Some(SimFault::Refused), 0);
    let next = [change(1, IN, 200), change(2, OUT, 600)];
    let faults = devices.apply_at(&|| at(10), &next);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0].circuit, next[0].circuit);
    assert_eq!(rates(&device), [(one, 800)]);
    assert!(!devices.is_empty());
    // the next call makes both
    assert_eq!(devices.apply_at(&|| at(1000), &[]), []);
    assert_eq!(rates(&device), [(one, 200), (two, 600)]);
}

#[test]
fn increase_whose_answer_was_lost_counts_until_its_removal() {
    let (mut devices, device) = devices();
    let (one, two) = (id_of(IN).0, id_of(OUT).0);
    assert_eq!(devices.apply_at(&|| at(0), &[change(1, IN, 100)]), []);
    device.fail_change(Some(SimFault::AnswerLost), 0);
    assert_eq!(devices.apply_at(&|| at(10), &[change(1, IN, 600)]), []);
    device.fail_removals(1);
    let next = [change(1, IN, 0), change(2, OUT, 401), change(3, OUT, 99)];
    assert_eq!(devices.apply_at(&|| at(20), &next), []);
    assert_eq!(rates(&device), [(one, 600)]);
    assert_eq!(devices.apply_at(&|| at(1020), &[]), []);
    assert_eq!(rates(&device), [(two, 500)]);
    // what both may use fits
    device.fail_change(Some(SimFault::AnswerLost), 0);
    assert_eq!(devices.apply_at(&|| at(1030), &[change(1, IN, 300)]), []);
    device.fail_removals(1);
    let next = [change(1, IN, 0), change(2, OUT, 601)];
    assert_eq!(devices.apply_at(&|| at(1040), &next), []);
    assert_eq!(rates(&device), [(one, 300), (two, 700)]);
}

#[test]
fn increase_is_repeated_after_a_lost_answer_although_the_device_may_have_it() {
    let (mut devices, device) = devices();
    assert_eq!(devices.apply_at(&|| at(0), &[change(1, IN, 100)]), []);
    device.fail_change(Some(SimFault::AnswerLost), 0);
    assert_eq!(devices.apply_at(&|| at(10), &[change(1, IN, 900)]), []);
    assert_eq!(devices.apply_at(&|| at(20), &[change(2, OUT, 100)]), []);
    let expected = [(id_of(IN).0, 900), (id_of(OUT).0, 100)];
    assert_eq!(rates(&device), expected);
    assert_eq!(devices.next_end(), None);
    assert!(devices.failed.is_empty() && devices.waiting.is_empty());
}

#[test]
fn smaller_increase_after_a_failed_increase_may_free_capacity() {
    let (mut devices, device) = with_guard(Duration::from_millis(200));
    let mut apply = |millis: u64, changes: &[RateChange]| {
        let faults = devices.apply_at(&|| at(millis), changes);
        (faults.len(), devices.next_end())
    };
    assert_eq!(apply(0, &[change(1, IN, 300)]), (0, None));
    device.fail_change(Some(SimFault::AnswerLost), 0);
    assert_eq!(apply(10, &[change(2, IN, 600)]), (0, None));
    // more than the rate that is known, and less than the one that the device may have
    assert_eq!(apply(20, &[change(2, IN, 200)]), (0, None));
    assert_eq!(apply(30, &[change(3, OUT, 101)]), (0, Some(at(220))));
    assert_eq!(apply(220, &[]), (0, None));
}

#[test]
fn increase_that_fails_after_its_guard_time_is_reported() {
    let (mut devices, device) = with_guard(Duration::from_millis(200));
    let mut apply = |millis: u64, changes: &[RateChange]| devices.apply_at(&|| at(millis), changes);
    assert_eq!(apply(0, &[change(1, IN, 1000)]), []);
    assert_eq!(apply(10, &[change(1, IN, 0), change(2, OUT, 700)]), []);
    device.fail_change(Some(SimFault::Refused), 0);
    let faults = apply(210, &[]);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0].circuit, change(2, OUT, 700).circuit);
}

#[test]
fn device_is_empty_once_its_last_circuit_was_removed() {
    let (mut devices, device) = devices();
    device.install(InstalledCircuit {
        id: id_of(OUT),
        flow: None,
        rate: Some(Rate::from_mbps(10)),
    });
    device.fail_removals(1);
    assert_eq!(devices.reset(at(0), &[]), []);
    assert!(!devices.is_empty(), "an old circuit is left");
    assert_eq!(devices.apply(at(0), &[]), []);
    assert!(devices.is_empty());
    assert_eq!(devices.apply(at(0), &[change(1, IN, 300)]), []);
    assert!(!devices.is_empty());
    device.fail_removals(1);
    devices.apply(at(0), &[change(1, IN, 0)]);
    assert!(!devices.is_empty(), "a removal has failed");
    devices.apply(at(0), &[]);
    assert!(devices.is_empty());
    device.fail_change(Some(SimFault::AnswerLost), 0);
    assert_eq!(devices.apply(at(0), &[change(1, IN, 300)]), []);
    assert!(!devices.is_empty(), "the device may have the rate");
}
