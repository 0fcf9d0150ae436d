//! Conformance suite for each dialect.

use std::collections::BTreeSet;

use lighthaul_base::Rate;
use lighthaul_circuit::conformance::{Fault as Injected, State, Subject, run};
use lighthaul_circuit::driver::Driver;
use lighthaul_circuit::error::Result;
use lighthaul_circuit::tl1::{SwitchConfig, Tl1};
use lighthaul_io::host::clock::{Clock, unix_nanos};

use crate::emulator::{Patch, Vendor};
use crate::replies::Fault;
use crate::testbed::{Testbed, VENDORS};

/// Emulated switch as subject.
struct Switch {
    testbed: Testbed,
    foreign: Patch,
}

impl Switch {
    fn new(vendor: Vendor) -> Self {
        let mut testbed = Testbed::with(vendor, "timeout = \"2s\"\nlist_timeout = \"20s\"");
        testbed.driver = None;
        let is_both = vendor != Vendor::Glimmerglass;
        let foreign = ("98".to_owned(), "99".to_owned(), is_both);
        Self { testbed, foreign }
    }
}

impl Subject for Switch {
    fn open(&mut self) -> Result<Box<dyn Driver>> {
        let config = SwitchConfig::read(self.testbed.settings())?;
        Ok(Box::new(Tl1::open(Clock::start(), &config, "wan")?))
    }

    fn interface(&self) -> String {
        "wan".to_owned()
    }

    fn compare(&mut self, expected: &State) -> std::result::Result<bool, String> {
        let bits: u64 = expected.values().flatten().map(|rate| rate.as_bps()).sum();
        let ours = self.testbed.switch.ours();
        let all: BTreeSet<Patch> = self.testbed.channels(&[0, 1, 2, 3]);
        let channel = Rate::from_mbps(10_000).as_bps();
        if ours.is_subset(&all) && ours.len() as u64 * channel == bits {
            Ok(true)
        } else {
            Err(format!("the switch has {ours:?}"))
        }
    }

    fn make_foreign(&mut self) -> bool {
        self.testbed.switch.make_foreign(&self.foreign)
    }

    fn take_foreign(&mut self) -> bool {
        let is_there = self.testbed.switch.patches().contains(&self.foreign);
        self.testbed.switch.cut(&self.foreign);
        is_there
    }

    fn inject(&mut self, fault: Injected, after: usize) -> bool {
        let switch = &self.testbed.switch;
        let fault = match fault {
            Injected::Refuse => Fault::Deny,
            Injected::Unreachable => Fault::Outage(false),
            Injected::Silence => Fault::Silence(false),
            Injected::AnswerLost => Fault::Hangup(true),
            Injected::Death => Fault::Hangup(false),
        };
        // harmless for the changes before
        for _ in 0..after {
            switch.misbehave("ENT", Fault::InProgress);
        }
        switch.misbehave("ENT", fault);
        true
    }

    fn calm(&mut self) {
        self.testbed.switch.calm();
    }
}

#[test]
fn each_dialect_passes_the_conformance_suite() {
    for vendor in VENDORS {
        let seed = unix_nanos();
        println!("seed {seed} of {vendor:?}");
        let report = run(&mut Switch::new(vendor), seed);
        println!("{report}");
        assert!(report.is_passed(), "{vendor:?}: {report}");
        let left_out = [
            "a full device refuses another circuit",
            "timers close circuits without the driver",
        ];
        assert_eq!(report.not_applicable(), left_out, "{vendor:?}");
    }
}
