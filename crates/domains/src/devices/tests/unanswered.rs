//! Devices that do not answer for a while.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::driver::{Capabilities, Change, Driver, InstalledCircuit};
use lighthaul_circuit::error::{Error, ProgramFault, Result};
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
        assert_eq!(interface.apply(4000, &[]), []);
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

#[test]
fn increases_that_fill_an_interface_are_repeated_in_one_call() {
    let mut interface = Interface::new(&LinkBook::default(), &[ONE, TWO], Duration::ZERO);
    assert_eq!(interface.reset(0, &[]), []);
    interface.device.fail_all(SimFault::AnswerLost, 2);
    let both = [change(1, ONE, 500), change(2, TWO, 500)];
    assert_eq!(interface.apply(1000, &both), []);
    assert_eq!(interface.devices.failed.len(), 2);
    assert_eq!(interface.apply(2000, &[]), []);
    assert!(interface.devices.failed.is_empty() && interface.devices.waiting.is_empty());
    assert_eq!((interface.mbps(ONE), interface.mbps(TWO)), (500, 500));
}

/// Device behind a program that dies at the removal of one circuit, and is started again with a back-off.
#[derive(Debug)]
struct BackedOff {
    device: SimDevice,
    fatal: CircuitId,
    /// Time in seconds.
    now: Arc<AtomicU64>,
    failures: u32,
    start_at: u64,
}

impl BackedOff {
    fn check(&self) -> Result<()> {
        let left = self
            .start_at
            .saturating_sub(self.now.load(Ordering::Relaxed));
        if left == 0 {
            return Ok(());
        }
        let (wait, last) = (Duration::from_secs(left), "it died".to_owned());
        Err(Error::Program {
            program: "driver".to_owned(),
            fault: ProgramFault::Resting { wait, last },
        })
    }
}

impl Driver for BackedOff {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn apply(&mut self, changes: &[Change<'_>]) -> Vec<Result<()>> {
        if let Err(why) = self.check() {
            return vec![Err(why); changes.len()];
        }
        self.failures = 0;
        self.device.apply(changes)
    }

    fn remove(&mut self, id: CircuitId) -> Result<()> {
        self.check()?;
        if id != self.fatal {
            return self.device.remove(id);
        }
        self.failures += 1;
        let rest = match self.failures {
            1 => 0,
            more => 60.min(1 << (more - 2).min(6)),
        };
        self.start_at = self.now.load(Ordering::Relaxed) + rest;
        Err(Error::Unreachable("the program died".to_owned()))
    }

    fn inspect(&mut self) -> Result<Vec<InstalledCircuit>> {
        self.check()?;
        self.device.inspect()
    }
}

#[test]
fn removal_that_is_fatal_to_its_program_fails_no_path_that_begins() {
    let (device, now) = (sim_device(Duration::ZERO), Arc::new(AtomicU64::new(0)));
    let driver = BackedOff {
        device: device.clone(),
        fatal: id_of(ONE),
        now: Arc::clone(&now),
        failures: 0,
        start_at: 0,
    };
    let circuit = |segment: Segment| {
        let flow = format!("udp {}", segment.egress.0).parse().unwrap();
        let interface = "eth1".to_owned();
        (segment, SegmentCircuit { interface, flow })
    };
    let circuits = [circuit(ONE), circuit(TWO)];
    let drivers = [("eth1".to_owned(), Box::new(driver) as Box<dyn Driver>)];
    let mut devices = DrivenDevices::new(drivers.into(), circuits.into());
    let mut apply = |secs: u64, changes: &[RateChange]| {
        now.store(secs, Ordering::Relaxed);
        let time = Instant::ZERO + Duration::from_secs(secs);
        devices.apply_at(&|| time, changes)
    };
    assert_eq!(apply(0, &[change(1, ONE, 100)]), []);
    assert_eq!(apply(1, &[change(1, ONE, 0)]), []);
    let rate = || device.circuits().get(&id_of(TWO)).and_then(|one| one.rate);
    // paths begin and end at all times of the back-off
    for round in 0..20 {
        let begin = 10 + round * 97;
        assert_eq!(apply(begin, &[change(2, TWO, 200)]), []);
        for secs in begin + 1..begin + 70 {
            assert_eq!(apply(secs, &[]), [], "{secs}");
        }
        assert_eq!(rate(), Rate::from_bps(200_000_000), "{round}");
        assert_eq!(apply(begin + 70, &[change(2, TWO, 0)]), []);
        for secs in begin + 71..begin + 97 {
            assert_eq!(apply(secs, &[]), [], "{secs}");
        }
    }
}
