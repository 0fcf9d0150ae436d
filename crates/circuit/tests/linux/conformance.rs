//! Conformance suite for an interface of the kernel, which `tc` shows.

use lighthaul_base::Rate;
use lighthaul_circuit::conformance::{Fault, State, Subject, run};
use lighthaul_circuit::driver::Driver;
use lighthaul_circuit::error::Result;
use lighthaul_io::host::clock::unix_nanos;

use crate::testbed::{INTERFACE, Testbed};

/// Interface as subject.
struct Interface(Testbed);

impl Subject for Interface {
    fn open(&mut self) -> Result<Box<dyn Driver>> {
        Ok(Box::new(self.0.shaper(CAPACITY)?))
    }

    fn interface(&self) -> String {
        INTERFACE.to_owned()
    }

    /// Compares the rates of classes. A class of a circuit without a rate has the lowest one, and a higher ceiling.
    fn compare(&mut self, expected: &State) -> std::result::Result<bool, String> {
        let text = self.0.tc("class show dev wire");
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
        self.0.tc(&format!(
            "class add dev wire parent 4c48:1 classid {FOREIGN} htb rate 3mbit"
        ));
        true
    }

    fn take_foreign(&mut self) -> bool {
        let is_there = self.0.tc("class show dev wire").contains(FOREIGN);
        self.0.tc(&format!("class del dev wire classid {FOREIGN}"));
        is_there
    }

    fn inject(&mut self, _fault: Fault, _after: usize) -> bool {
        false
    }

    fn calm(&mut self) {}
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
    let report = run(&mut Interface(testbed), seed);
    println!("{report}");
    assert!(report.is_passed(), "{report}");
    // the kernel refuses nothing of these, and there is no connection that could be cut
    let left_out = [
        "a full device refuses one more",
        "a refusal leaves the old state",
        "one refusal leaves other changes",
        "an unreachable device",
        "no answer until the time limit",
        "a lost answer",
        "a driver that dies",
        "several failures in a row",
    ];
    assert_eq!(report.not_applicable(), left_out);
}

/// Capacity in Mb/s.
const CAPACITY: u64 = 1000;
/// Class that another program adds.
const FOREIGN: &str = "4c48:7777";
