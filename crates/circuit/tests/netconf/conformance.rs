//! Conformance suite for the driver, with the device as another client sees it.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_base::Rate;
use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::conformance::{Fault, State, Subject, run};
use lighthaul_circuit::driver::Driver;
use lighthaul_circuit::error::Result;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_testkit::report;

use crate::client::{Client, all, one};
use crate::proxy::Proxy;
use crate::testbed::Testbed;

/// Device behind a proxy as subject.
struct Router {
    testbed: Testbed,
    proxy: Proxy,
    client: Client,
}

impl Subject for Router {
    fn open(&mut self) -> Result<Box<dyn Driver>> {
        Ok(Box::new(self.testbed.driver("proxy", "")?))
    }

    fn interface(&self) -> String {
        "router".to_owned()
    }

    fn compare(&mut self, expected: &State) -> std::result::Result<bool, String> {
        let running = self.client.running();
        let found = found(&running)?;
        if found == *expected {
            Ok(true)
        } else {
            Err(format!("the device has {found:?}"))
        }
    }

    fn make_foreign(&mut self) -> bool {
        self.client.edit(self.testbed.target, FOREIGN);
        true
    }

    fn take_foreign(&mut self) -> bool {
        let running = self.client.running();
        self.client.edit(self.testbed.target, NO_FOREIGN);
        [
            "lighthaul-x",
            "600-theirs",
            "777000",
            "<sequence>1001</sequence>",
        ]
        .iter()
        .all(|text| running.contains(text))
    }

    fn inject(&mut self, fault: Fault, after: usize) -> bool {
        self.proxy.set(Some((fault, after)));
        true
    }

    fn calm(&mut self) {
        self.proxy.set(None);
    }
}

/// Returns the circuits in a configuration. Each has all its parts, or the circuits are an error.
pub(crate) fn found(running: &str) -> std::result::Result<State, String> {
    let number = |name: &str| -> Option<u64> { name.strip_prefix("lighthaul-")?.parse().ok() };
    let names = |list: &str, entry: &str| -> BTreeSet<u64> {
        let entries = all(one(running, list), entry);
        entries
            .iter()
            .filter_map(|text| number(one(text, "name")))
            .collect()
    };
    let queues = names("queues", "queue");
    let groups = names("forwarding-groups", "forwarding-group");
    let (mut open, mut closed) = (BTreeSet::new(), BTreeSet::new());
    for classifier in all(one(running, "classifiers"), "classifier") {
        for term in all(classifier, "term") {
            let name = one(classifier, "name");
            if let Some(id) = number(one(term, "target-group")) {
                let is_closed = name.ends_with("-closed");
                if is_closed { &mut closed } else { &mut open }.insert(id);
            }
        }
    }
    let policy = one(running, "scheduler-policies");
    let mut rates = BTreeMap::new();
    for scheduler in all(policy, "scheduler") {
        if let Some(id) = number(one(scheduler, "queue")) {
            let rate = one(scheduler, "cir").parse().ok().and_then(Rate::from_bps);
            rates.insert(id, rate);
        }
    }
    let with_rate: BTreeSet<u64> = rates.keys().copied().collect();
    let all: BTreeSet<u64> = open.union(&closed).copied().collect();
    if queues != all || groups != all || open != with_rate || open.intersection(&closed).count() > 0
    {
        return Err(format!(
            "queues {queues:?}, groups {groups:?}, open {open:?}, closed {closed:?}, rates {rates:?}"
        ));
    }
    let circuit = |id: &u64| (CircuitId(*id), rates.get(id).copied().flatten());
    Ok(all.iter().map(circuit).collect())
}

fn pass(test: &str, target: &'static str) {
    let Some(testbed) = Testbed::start(test, target) else {
        return;
    };
    let proxy = Proxy::start(&testbed.path(""));
    let client = testbed.client();
    let seed = unix_nanos();
    report(format!("seed {seed}"));
    let mut router = Router {
        testbed,
        proxy,
        client,
    };
    let found = run(&mut router, seed);
    assert!(found.is_passed(), "{found}");
    assert_eq!(
        found.not_applicable(),
        ["timers close circuits without the driver"]
    );
}

#[test]
fn device_with_a_candidate_passes_the_conformance_suite() {
    pass(
        "device_with_a_candidate_passes_the_conformance_suite",
        "candidate",
    );
}

#[test]
fn device_without_a_candidate_passes_the_conformance_suite() {
    pass(
        "device_without_a_candidate_passes_the_conformance_suite",
        "running",
    );
}

/// Configuration of another client, close to that of the driver: a queue with a similar name, a term in the same
/// classifier, and a scheduler with a number of the driver.
const FOREIGN: &str = "\
    <queues><queue><name>lighthaul-x</name><config><name>lighthaul-x</name></config></queue></queues>\
    <forwarding-groups><forwarding-group><name>theirs</name><config><name>theirs</name>\
    <output-queue>lighthaul-x</output-queue></config></forwarding-group></forwarding-groups>\
    <classifiers><classifier><name>lighthaul-ipv4</name><terms><term><id>600-theirs</id><config><id>600-theirs</id></config>\
    <actions><config><target-group>theirs</target-group></config></actions></term></terms></classifier></classifiers>\
    <scheduler-policies><scheduler-policy><name>lighthaul</name><schedulers><scheduler><sequence>1001</sequence>\
    <config><sequence>1001</sequence></config><inputs><input><id>x</id><config><id>x</id><input-type>QUEUE</input-type>\
    <queue>lighthaul-x</queue></config></input></inputs><one-rate-two-color><config><cir>777000</cir></config>\
    </one-rate-two-color></scheduler></schedulers></scheduler-policy></scheduler-policies>";
const NO_FOREIGN: &str = "\
    <queues><queue nc:operation=\"delete\"><name>lighthaul-x</name></queue></queues>\
    <forwarding-groups><forwarding-group nc:operation=\"delete\"><name>theirs</name></forwarding-group></forwarding-groups>\
    <classifiers><classifier><name>lighthaul-ipv4</name><terms><term nc:operation=\"delete\"><id>600-theirs</id></term></terms>\
    </classifier></classifiers>\
    <scheduler-policies><scheduler-policy><name>lighthaul</name><schedulers><scheduler nc:operation=\"delete\">\
    <sequence>1001</sequence></scheduler></schedulers></scheduler-policy></scheduler-policies>";
