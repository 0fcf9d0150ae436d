//! Circuits that a device loses or changes without a call of its driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::driver::{Capabilities, Change, Driver, InstalledCircuit};
use lighthaul_circuit::error::Result;
use lighthaul_circuit::sim_device::{FaultModel, SimDevice, SimFault};
use lighthaul_stargate::Segment;

use crate::devices::driven::DrivenDevices;
use crate::devices::link_book::LinkBook;
use crate::devices::segment_circuit::{SegmentCircuit, id_of};
use crate::devices::tests::example::{Interface, change, link, logged, segment, sim_device};

const ONE: Segment = segment(1, 2);
const TWO: Segment = segment(1, 3);
const GONE: Segment = segment(1, 4);

/// Returns an interface with a circuit of 300 Mb/s.
fn begun() -> Interface {
    let mut interface = Interface::new(&LinkBook::default(), &[ONE, TWO, GONE], Duration::ZERO);
    assert_eq!(interface.reset(0, &[change(1, ONE, 300)]), []);
    assert_eq!(interface.mbps(ONE), 300);
    interface
}

fn install(interface: &Interface, segment: Segment, flow: &str, mbps: u64) {
    interface.device.install(InstalledCircuit {
        id: id_of(segment),
        flow: flow.parse().ok(),
        rate: Rate::from_bps(mbps * 1_000_000),
    });
}

/// Makes all calls of a device fail, or none.
fn fail(interface: &Interface, is_failing: bool) {
    interface.device.set_fault_model(FaultModel {
        latency_max: Duration::ZERO,
        fail_ppb: if is_failing { 1_000_000_000 } else { 0 },
    });
}

/// Passes the time until an inspection is due, and what it leads to.
fn pass(interface: &mut Interface, millis: u64) {
    assert_eq!(interface.apply(millis, &[]), []);
    assert_eq!(interface.apply(millis, &[]), []);
}

#[test]
fn lost_circuit_is_set_again_within_half_a_minute() {
    let mut interface = begun();
    interface.device.forget(id_of(ONE));
    pass(&mut interface, 29_999);
    assert_eq!(interface.mbps(ONE), 0);
    pass(&mut interface, 30_000);
    assert_eq!(interface.mbps(ONE), 300);
    // and so is one that is lost later
    interface.device.forget(id_of(ONE));
    pass(&mut interface, 60_000);
    assert_eq!(interface.mbps(ONE), 300);
}

#[test]
fn circuit_with_another_rate_or_other_packets_is_set_again() {
    for (flow, mbps) in [("udp 1", 200), ("udp 1", 400), ("udp 1", 0), ("udp 7", 300)] {
        let mut interface = begun();
        install(&interface, ONE, flow, mbps);
        pass(&mut interface, 30_000);
        let circuits = interface.device.circuits();
        let circuit = &circuits[&id_of(ONE)];
        assert_eq!(circuit.rate, Some(Rate::from_mbps(300)), "{flow} {mbps}");
        assert_eq!(circuit.flow, "udp 1".parse().ok(), "{flow} {mbps}");
    }
}

#[test]
fn circuit_that_comes_back_after_its_removal_is_removed() {
    let mut interface = begun();
    // a device that takes a configuration back
    install(&interface, GONE, "udp 1", 100);
    pass(&mut interface, 30_000);
    assert_eq!((interface.mbps(ONE), interface.mbps(GONE)), (300, 0));
}

#[test]
fn circuit_that_stays_lost_for_two_minutes_is_a_fault() {
    let mut interface = begun();
    assert_eq!(interface.apply(1, &[change(2, ONE, 100)]), []);
    assert_eq!(interface.apply(1, &[change(3, TWO, 50)]), []);
    for millis in (30_000..150_000).step_by(10_000) {
        interface.device.forget(id_of(ONE));
        pass(&mut interface, millis);
    }
    interface.device.forget(id_of(ONE));
    let mut faults = interface.apply(150_000, &[]);
    faults.sort_by_key(|one| one.circuit);
    let circuits: Vec<_> = faults.iter().map(|one| one.circuit).collect();
    let expected = [change(1, ONE, 1).circuit, change(2, ONE, 1).circuit];
    assert_eq!(circuits, expected);
    assert!(faults[0].why.contains("port 1 to port 2"), "{faults:?}");
    // paths that are released end the fault
    let end = [change(1, ONE, 0), change(2, ONE, 0)];
    assert_eq!(interface.apply(150_001, &end), []);
    pass(&mut interface, 180_001);
    assert_eq!((interface.mbps(ONE), interface.mbps(TWO)), (0, 50));
}

#[test]
fn circuit_that_the_device_does_not_take_again_is_a_fault_with_its_reason() {
    let mut interface = begun();
    interface.device.forget(id_of(ONE));
    let refuse = |interface: &Interface| {
        interface.device.fail_change(Some(SimFault::Refused), 0);
    };
    for millis in (30_000..150_000).step_by(10_000) {
        pass_refused(&mut interface, millis, &refuse);
    }
    let faults = interface.apply(150_000, &[]);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].why.contains("simulated fault"), "{faults:?}");
}

/// Does the same as [`pass`] with a device that takes no change.
fn pass_refused(interface: &mut Interface, millis: u64, refuse: &impl Fn(&Interface)) {
    for _ in 0..2 {
        refuse(interface);
        assert_eq!(interface.apply(millis, &[]), [], "{millis}");
    }
    refuse(interface);
}

#[test]
fn inspection_follows_a_change_that_it_could_delay() {
    let at = |millis| Some(Instant::ZERO + Duration::from_millis(millis));
    let mut interface = begun();
    interface.device.forget(id_of(ONE));
    interface.devices.note_next_change(at(30_249));
    pass(&mut interface, 30_000);
    assert_eq!(interface.mbps(ONE), 0);
    interface.devices.note_next_change(at(30_250));
    pass(&mut interface, 30_000);
    assert_eq!(interface.mbps(ONE), 300);
    // changes that follow each other closely delay it for a limited time
    interface.device.forget(id_of(ONE));
    for millis in (40_000..70_000).step_by(100) {
        interface.devices.note_next_change(at(millis + 100));
        pass(&mut interface, millis);
        assert_eq!(interface.mbps(ONE), 0, "{millis}");
    }
    pass(&mut interface, 70_000);
    assert_eq!(interface.mbps(ONE), 300);
}

#[test]
fn circuit_that_is_lost_now_and_then_is_no_fault() {
    let mut interface = begun();
    for nth in 1..9 {
        let millis = nth * 100_000;
        interface.device.forget(id_of(ONE));
        pass(&mut interface, millis);
        // the next inspection finds it
        pass(&mut interface, millis + 50_000);
        assert_eq!(interface.mbps(ONE), 300);
    }
}

#[test]
fn device_that_cannot_be_read_keeps_its_paths_and_is_read_again() {
    let mut interface = begun();
    fail(&interface, true);
    let lines = logged("cannot be read", || {
        for nth in 3..60 {
            pass(&mut interface, nth * 10_000);
        }
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    fail(&interface, false);
    interface.device.forget(id_of(ONE));
    pass(&mut interface, 600_000);
    assert_eq!(interface.mbps(ONE), 300);
}

#[test]
fn lost_circuit_gets_back_the_part_that_it_had_while_its_increase_waits() {
    let links = LinkBook::new(&[link("a-b", &[(ONE, 0), (segment(3, 4), 0)])]);
    let mut interface = Interface::new(&links, &[ONE], Duration::ZERO);
    let mut other = Interface::new(&links, &[segment(3, 4)], Duration::ZERO);
    assert_eq!(interface.reset(0, &[change(1, ONE, 30)]), []);
    assert_eq!(other.reset(0, &[change(2, segment(3, 4), 60)]), []);
    assert_eq!(interface.apply(1, &[change(1, ONE, 30)]), []);
    assert_eq!(interface.apply(29_000, &[change(3, ONE, 40)]), []);
    assert_eq!(interface.mbps(ONE), 30);
    interface.device.forget(id_of(ONE));
    // it is no fault meanwhile
    for millis in (30_000..200_000).step_by(10_000) {
        interface.device.forget(id_of(ONE));
        pass(&mut interface, millis);
        assert_eq!(interface.mbps(ONE), 30);
    }
    assert_eq!(other.apply(201_000, &[change(2, segment(3, 4), 10)]), []);
    pass(&mut interface, 201_000);
    assert_eq!(interface.mbps(ONE), 70);
}

#[test]
fn circuit_that_is_lost_beside_one_that_cannot_be_removed_is_set_again() {
    let mut interface = begun();
    install(&interface, GONE, "udp 1", 100);
    interface.device.fail_removals(usize::MAX);
    pass(&mut interface, 30_000);
    interface.device.forget(id_of(ONE));
    pass(&mut interface, 60_000);
    assert_eq!(interface.mbps(ONE), 300);
}

/// Device whose circuits take a time to read.
#[derive(Debug)]
struct SlowList {
    device: SimDevice,
    /// Time in milliseconds.
    now: Arc<AtomicU64>,
    takes: u64,
}

impl Driver for SlowList {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn apply(&mut self, changes: &[Change<'_>]) -> Vec<Result<()>> {
        self.device.apply(changes)
    }

    fn remove(&mut self, id: CircuitId) -> Result<()> {
        self.device.remove(id)
    }

    fn inspect(&mut self) -> Result<Vec<InstalledCircuit>> {
        self.now.fetch_add(self.takes, Ordering::Relaxed);
        self.device.inspect()
    }
}

/// Returns the times in milliseconds at which a slow device with a change each `every` is read in an hour. An old circuit
/// that cannot be removed is there, or not.
fn readings(takes: u64, every: u64, has_old: bool) -> Vec<u64> {
    let (device, now) = (sim_device(Duration::ZERO), Arc::new(AtomicU64::new(0)));
    if has_old {
        let (id, rate) = (id_of(GONE), Some(Rate::from_mbps(1)));
        device.install(InstalledCircuit {
            id,
            flow: None,
            rate,
        });
        device.fail_removals(usize::MAX);
    }
    let driver = SlowList {
        device,
        now: Arc::clone(&now),
        takes,
    };
    let circuit = SegmentCircuit {
        interface: "eth1".to_owned(),
        flow: "udp 1".parse().unwrap(),
    };
    let drivers = [("eth1".to_owned(), Box::new(driver) as Box<dyn Driver>)];
    let mut devices = DrivenDevices::new(drivers.into(), [(ONE, circuit)].into());
    let time = || Instant::ZERO + Duration::from_millis(now.load(Ordering::Relaxed));
    assert_eq!(devices.reset_at(&time, &[change(1, ONE, 300)]), []);
    let mut found = Vec::new();
    while now.load(Ordering::Relaxed) < 3_600_000 {
        let before = now.fetch_add(100, Ordering::Relaxed) + 100;
        let next = (before / every + 1) * every;
        devices.note_next_change(Some(Instant::ZERO + Duration::from_millis(next)));
        assert_eq!(devices.apply_at(&time, &[]), []);
        let after = now.load(Ordering::Relaxed);
        found.extend((after > before).then_some(before));
    }
    found
}

#[test]
fn slow_reading_ends_before_the_next_change() {
    for has_old in [false, true] {
        let (takes, every) = (20_000, 60_000);
        let found = readings(takes, every, has_old);
        assert!(found.len() > 50, "{found:?}");
        let late = found.iter().filter(|at| *at % every + takes > every);
        assert_eq!(late.count(), 0, "{found:?}");
    }
}

#[test]
fn reading_that_is_longer_than_the_time_between_changes_is_rare() {
    for has_old in [false, true] {
        let found = readings(20_000, 10_000, has_old);
        assert!((5..=12).contains(&found.len()), "{found:?}");
    }
}
