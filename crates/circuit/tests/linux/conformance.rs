//! Conformance suite for an interface of the kernel, which `tc` shows.

use std::sync::{Arc, Mutex};

use lighthaul_base::Rate;
use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::conformance::{Fault, State, Subject, run};
use lighthaul_circuit::driver::{Capabilities, Change, Driver, InstalledCircuit};
use lighthaul_circuit::error::{Cause, Error, Result};
use lighthaul_circuit::linux::Shaper;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_testkit::Ordinary;

use crate::testbed::{INTERFACE, Testbed};

/// Interface as subject, and the fault of its next changes.
struct Interface {
    testbed: Arc<Testbed>,
    fault: Arc<Mutex<Option<(Fault, usize)>>>,
}

/// Driver in a process that loses its rights, or that is killed and started again.
#[derive(Debug)]
struct Mortal {
    testbed: Arc<Testbed>,
    shaper: Option<Shaper>,
    capabilities: Capabilities,
    fault: Arc<Mutex<Option<(Fault, usize)>>>,
}

impl Mortal {
    /// Returns the fault that strikes this change, if it is the one.
    fn strike(&self) -> Option<Fault> {
        let mut fault = self.fault.lock().unwrap();
        let (kind, after) = (*fault)?;
        *fault = (after > 0).then(|| (kind, after - 1));
        (after == 0).then_some(kind)
    }

    fn shaper(&mut self) -> Result<&mut Shaper> {
        let shaper = match self.shaper.take() {
            Some(shaper) => shaper,
            None => self.testbed.shaper(CAPACITY)?,
        };
        Ok(self.shaper.insert(shaper))
    }

    fn change(&mut self, change: Change<'_>) -> Result<()> {
        let fault = self.strike();
        if fault == Some(Fault::Death) {
            self.shaper = None;
            return Err(Error::NoAnswer);
        }
        let shaper = self.shaper()?;
        // the kernel refuses changes of a user without rights
        let user = (fault == Some(Fault::Refuse)).then(Ordinary::begin);
        let result = shaper.apply(&[change]).remove(0);
        drop(user);
        if fault == Some(Fault::AnswerLost) {
            self.shaper = None;
            return Err(Error::NoAnswer);
        }
        result
    }
}

impl Driver for Mortal {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn apply(&mut self, changes: &[Change<'_>]) -> Vec<Result<()>> {
        if self.fault.lock().unwrap().is_none()
            && let Some(shaper) = &mut self.shaper
        {
            return shaper.apply(changes);
        }
        changes.iter().map(|change| self.change(*change)).collect()
    }

    fn remove(&mut self, id: CircuitId) -> Result<()> {
        self.shaper()?.remove(id)
    }

    fn inspect(&mut self) -> Result<Vec<InstalledCircuit>> {
        self.shaper()?.inspect()
    }
}

impl Subject for Interface {
    fn open(&mut self) -> Result<Box<dyn Driver>> {
        let shaper = self.testbed.shaper(CAPACITY)?;
        Ok(Box::new(Mortal {
            testbed: Arc::clone(&self.testbed),
            capabilities: shaper.capabilities(),
            shaper: Some(shaper),
            fault: Arc::clone(&self.fault),
        }))
    }

    fn interface(&self) -> String {
        INTERFACE.to_owned()
    }

    /// Compares the rates of classes. A class of a circuit without a rate has the lowest one, and a higher ceiling.
    fn compare(&mut self, expected: &State) -> std::result::Result<bool, String> {
        let text = self.testbed.tc("class show dev wire");
        let mut found = Vec::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_circuit = words[3..5] == ["parent", "4c48:1"];
            if is_circuit && words[2] != "4c48:ffff" && words[2] != FOREIGN {
                let value = |name: &str| {
                    let at = words.iter().position(|word| *word == name).unwrap();
                    kilobits(words[at + 1])
                };
                let is_open = value("rate") == value("ceil");
                found.push(if is_open { value("rate") } else { 0 });
            }
        }
        let rates = expected.values();
        let mut wanted: Vec<u64> = rates
            .map(|rate| rate.map_or(0, Rate::as_bps) / 1000)
            .collect();
        found.sort_unstable();
        wanted.sort_unstable();
        let mut pairs = found.iter().zip(&wanted);
        // tc rounds
        let is_equal =
            found.len() == wanted.len() && pairs.all(|(one, other)| one.abs_diff(*other) <= 1);
        if is_equal {
            Ok(true)
        } else {
            Err(format!("tc shows {found:?} instead of {wanted:?}"))
        }
    }

    fn make_foreign(&mut self) -> bool {
        self.testbed.tc(&format!(
            "class add dev wire parent 4c48:1 classid {FOREIGN} htb rate 3mbit"
        ));
        true
    }

    fn take_foreign(&mut self) -> bool {
        let is_there = self.testbed.tc("class show dev wire").contains(FOREIGN);
        self.testbed
            .tc(&format!("class del dev wire classid {FOREIGN}"));
        is_there
    }

    fn refuser(&self) -> Cause {
        Cause::Host
    }

    fn inject(&mut self, fault: Fault, after: usize) -> bool {
        // the kernel always answers
        let is_possible = !matches!(fault, Fault::Unreachable | Fault::Silence);
        *self.fault.lock().unwrap() = is_possible.then_some((fault, after));
        is_possible
    }

    fn calm(&mut self) {
        *self.fault.lock().unwrap() = None;
    }
}

/// Returns a rate of `tc` in kilobits a second.
fn kilobits(text: &str) -> u64 {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: u64 = digits.parse().unwrap();
    match &text[digits.len()..] {
        "bit" => number / 1000,
        "Kbit" => number,
        "Mbit" => number * 1000,
        "Gbit" => number * 1_000_000,
        other => panic!("{other}"),
    }
}

#[test]
fn interface_passes_the_conformance_suite() {
    let Some(testbed) = Testbed::start("interface_passes_the_conformance_suite") else {
        return;
    };
    let seed = unix_nanos();
    println!("seed {seed}");
    let (testbed, fault) = (Arc::new(testbed), Arc::default());
    let mut interface = Interface { testbed, fault };
    let report = run(&mut interface, seed);
    println!("{report}");
    assert!(report.is_passed(), "{report}");
    // the kernel has no timers, and always answers
    let left_out = [
        "timers close circuits without the driver",
        "an unreachable device",
        "no answer until the time limit",
    ];
    assert_eq!(report.not_applicable(), left_out);
}

/// Capacity in Mb/s.
const CAPACITY: u64 = 1000;
/// Class that another program adds.
const FOREIGN: &str = "4c48:7777";
