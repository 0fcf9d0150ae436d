//! Devices that do not answer for a while.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::driver::{Capabilities, Change, Driver, InstalledCircuit};
use lighthaul_circuit::error::{Error, Result};
use lighthaul_circuit::sim_device::{SimDevice, SimFault};
use lighthaul_stargate::{RateChange, Segment};

use crate::devices::driven::DrivenDevices;
use crate::devices::link_book::LinkBook;
use crate::devices::segment_circuit::{SegmentCircuit, id_of};
use crate::devices::tests::example::{Interface, carried, change, logged, segment, sim_device};

const ONE: Segment = segment(1, 2);
const TWO: Segment = segment(1, 3);

/// Returns an interface with a path of 800 Mb/s.
fn begun() -> Interface {
    let mut interface = Interface::new(&LinkBook::default(), &[ONE, TWO], Duration::ZERO);
    assert_eq!(interface.reset(0, &[change(1, ONE, 800)]), []);
    interface
}

/// Lets the device leave the changes of the next call without an answer.
fn silence(interface: &Interface, fault: SimFault) {
    interface.device.fail_change(Some(fault), 0);
}

#[test]
fn change_without_an_answer_is_repeated_for_half_a_minute() {
    let mut interface = begun();
    let lines = logged("a device did not change a circuit", || {
        silence(&interface, SimFault::Unreachable);
        assert_eq!(interface.apply(1000, &[change(1, ONE, 200)]), []);
        for millis in (2000..31_000).step_by(1000) {
            silence(&interface, SimFault::Unreachable);
            assert_eq!(interface.apply(millis, &[]), [], "{millis}");
        }
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    silence(&interface, SimFault::Unreachable);
    let faults = interface.apply(31_000, &[]);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0].circuit, change(1, ONE, 1).circuit);
    // it is reported once
    silence(&interface, SimFault::Unreachable);
    assert_eq!(interface.apply(32_000, &[]), []);
}

#[test]
fn path_outlives_lost_answers_between_answers() {
    let mut interface = begun();
    for nth in 1..9 {
        let (millis, mbps) = (nth * 20_000, 800 - nth * 50);
        silence(&interface, SimFault::Unreachable);
        assert_eq!(interface.apply(millis, &[change(1, ONE, mbps)]), []);
        assert_eq!(interface.apply(millis + 1000, &[]), []);
        assert_eq!(interface.mbps(ONE), mbps);
        assert_eq!(carried(&interface), [(1, Some(mbps))]);
    }
}

#[test]
fn capacity_of_a_decrease_without_an_answer_is_not_used_before_its_repetition() {
    // the device has made the decrease, or not
    for fault in [SimFault::Unreachable, SimFault::AnswerLost] {
        let mut interface = begun();
        silence(&interface, fault);
        let next = [change(1, ONE, 200), change(2, TWO, 600)];
        assert_eq!(interface.apply(1000, &next), []);
        assert_eq!(interface.mbps(TWO), 0);
        assert_eq!(carried(&interface), [(1, None), (2, Some(0))]);
        silence(&interface, fault);
        assert_eq!(interface.apply(2000, &[]), []);
        assert_eq!(interface.mbps(TWO), 0);
        assert_eq!(interface.apply(3000, &[]), []);
        assert_eq!((interface.mbps(ONE), interface.mbps(TWO)), (200, 600));
    }
}

#[test]
fn device_that_refuses_after_no_answer_fails_the_path_at_once() {
    let mut interface = begun();
    silence(&interface, SimFault::Unreachable);
    assert_eq!(interface.apply(1000, &[change(1, ONE, 900)]), []);
    silence(&interface, SimFault::Refused);
    assert_eq!(interface.apply(2000, &[]).len(), 1);
}

/// Device behind a program that dies in each call with a change of one of some circuits. It then makes no change.
#[derive(Clone, Debug)]
struct Fragile {
    device: SimDevice,
    fatal: Arc<Mutex<BTreeSet<CircuitId>>>,
}

impl Driver for Fragile {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn apply(&mut self, changes: &[Change<'_>]) -> Vec<Result<()>> {
        let fatal = self.fatal.lock().unwrap();
        if changes.iter().any(|one| fatal.contains(&one.circuit.id)) {
            let died = Error::Unreachable("the program died".to_owned());
            return vec![Err(died); changes.len()];
        }
        self.device.apply(changes)
    }

    fn remove(&mut self, id: CircuitId) -> Result<()> {
        self.device.remove(id)
    }

    fn inspect(&mut self) -> Result<Vec<InstalledCircuit>> {
        self.device.inspect()
    }
}

#[test]
fn change_that_is_fatal_to_its_program_fails_no_other_path() {
    let pair = |nth: u32| segment(1, 10 + nth);
    for fatal in [&[0][..], &[3], &[5], &[1, 4]] {
        let driver = Fragile {
            device: sim_device(Duration::ZERO),
            fatal: Arc::default(),
        };
        let circuit = |nth: u32| SegmentCircuit {
            interface: "eth1".to_owned(),
            flow: format!("udp {}", 1 + nth).parse().unwrap(),
        };
        let circuits = (0..6).map(|nth| (pair(nth), circuit(nth))).collect();
        let drivers = [(
            "eth1".to_owned(),
            Box::new(driver.clone()) as Box<dyn Driver>,
        )];
        let mut devices = DrivenDevices::new(drivers.into(), circuits);
        let mut apply = |secs: u64, changes: &[RateChange]| {
            let now = Instant::ZERO + Duration::from_secs(secs);
            devices.apply_at(&|| now, changes)
        };
        let paths = |mbps| (0..6).map(move |nth| change(nth.into(), pair(nth), mbps));
        assert_eq!(apply(0, &paths(100).collect::<Vec<_>>()), []);
        let ids = fatal.iter().map(|nth| id_of(pair(*nth)));
        *driver.fatal.lock().unwrap() = ids.collect();
        assert_eq!(apply(10, &paths(50).collect::<Vec<_>>()), []);
        for secs in 11..20 {
            assert_eq!(apply(secs, &[]), [], "{fatal:?} {secs}");
        }
        let rate = |nth| {
            let circuits = driver.device.circuits();
            circuits[&id_of(pair(nth))].rate.unwrap().as_bps() / 1_000_000
        };
        for nth in 0..6 {
            let expected = if fatal.contains(&nth) { 100 } else { 50 };
            assert_eq!(rate(nth), expected, "{fatal:?} {nth}");
        }
        let faults = apply(40, &[]);
        let failed = faults.iter().map(|one| one.circuit.0.id.0);
        assert!(failed.eq(fatal.iter().map(|nth| u128::from(*nth))));
    }
}
