//! Conformance suite for the driver, with the switch as `ovs-ofctl` shows it.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_base::Rate;
use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::conformance::{Fault, State, Subject, run};
use lighthaul_circuit::driver::Driver;
use lighthaul_circuit::error::Result;
use lighthaul_io::host::clock::unix_nanos;

use crate::proxy::Proxy;
use crate::testbed::Testbed;

/// Switch behind a proxy as subject.
struct Bridge {
    testbed: Testbed,
    proxy: Proxy,
}

impl Subject for Bridge {
    fn open(&mut self) -> Result<Box<dyn Driver>> {
        Ok(Box::new(self.testbed.driver("proxy", "")?))
    }

    fn interface(&self) -> String {
        "br0".to_owned()
    }

    fn compare(&mut self, expected: &State) -> std::result::Result<bool, String> {
        let found = found(&self.testbed)?;
        if found == *expected {
            Ok(true)
        } else {
            Err(format!("ovs-ofctl shows {found:?}"))
        }
    }

    fn make_foreign(&mut self) -> bool {
        for flow in FOREIGN {
            self.testbed.ofctl("add-flow", flow);
        }
        for meter in FOREIGN_METERS {
            let words = format!("meter={meter},kbps,band=type=drop,rate=777");
            self.testbed.ofctl("add-meter", &words);
        }
        true
    }

    fn take_foreign(&mut self) -> bool {
        let flows = self.testbed.ofctl("dump-flows", "cookie=9/-1");
        let meters = self.testbed.ofctl("dump-meters", "");
        self.testbed.ofctl("del-flows", "cookie=9/-1");
        for meter in FOREIGN_METERS {
            self.testbed.ofctl("del-meters", &format!("meter={meter}"));
        }
        let count = |text: &str, what| text.matches(what).count();
        count(&flows, "cookie=0x9,") == FOREIGN.len()
            && count(&meters, "rate=777") == FOREIGN_METERS.len()
    }

    fn inject(&mut self, fault: Fault, after: usize) -> bool {
        self.proxy.set(Some((fault, after)));
        true
    }

    fn calm(&mut self) {
        self.proxy.set(None);
    }
}

/// Returns the circuits that the flows and meters of the driver make.
fn found(testbed: &Testbed) -> std::result::Result<State, String> {
    let flows = testbed.ofctl("dump-flows", &format!("cookie={OWNER:#x}/{OWNER_MASK:#x}"));
    let (mut records, mut open) = (BTreeMap::new(), BTreeSet::new());
    for line in flows.lines().filter(|line| line.contains("cookie=")) {
        let slot = number(line, "cookie=0x", 16).unwrap() & !OWNER_MASK;
        if line.contains("table=253,") {
            let id = number(line, "metadata=0x", 16).unwrap();
            if records.insert(id, slot).is_some() {
                return Err(format!("two records of {id}:\n{flows}"));
            }
        } else {
            if number(line, "actions=meter:", 10) != Some(slot) || !line.ends_with(",NORMAL") {
                return Err(format!("wrong actions:\n{flows}"));
            }
            open.insert(slot);
        }
    }
    let meters = meters(testbed);
    let has_meter: BTreeSet<u64> = meters.keys().copied().collect();
    let slots: BTreeSet<u64> = records.values().copied().collect();
    if open != has_meter || !open.is_subset(&slots) {
        return Err(format!(
            "flows {open:?}, meters {has_meter:?}, records {records:?}"
        ));
    }
    let rate = |slot| {
        meters
            .get(slot)
            .and_then(|kbps| Rate::from_bps(kbps * 1000))
    };
    let circuits = records.iter();
    Ok(circuits
        .map(|(id, slot)| (CircuitId(*id), rate(slot)))
        .collect())
}

/// Returns the rates of the driver's meters in kilobits a second.
fn meters(testbed: &Testbed) -> BTreeMap<u64, u64> {
    let text = testbed.ofctl("dump-meters", "");
    let meters = text.split("\nmeter=").skip(1);
    let meters = meters.map(|text| {
        let rate = number(text, " rate=", 10).or_else(|| number(text, "drop rate=", 10));
        (number(&format!("={text}"), "=", 10).unwrap(), rate.unwrap())
    });
    meters.filter(|(_, rate)| *rate != 777).collect()
}

/// Returns the number behind a text.
fn number(text: &str, before: &str, radix: u32) -> Option<u64> {
    let (_, rest) = text.split_once(before)?;
    let end = rest.find(|letter: char| !letter.is_digit(radix));
    u64::from_str_radix(&rest[..end.unwrap_or(rest.len())], radix).ok()
}

#[test]
fn open_vswitch_passes_the_conformance_suite() {
    let Some(testbed) = Testbed::start("open_vswitch_passes_the_conformance_suite") else {
        return;
    };
    let proxy = Proxy::start(&testbed.path("proxy"), testbed.path("br0.mgmt"));
    let seed = unix_nanos();
    println!("seed {seed}");
    let report = run(&mut Bridge { testbed, proxy }, seed);
    println!("{report}");
    assert!(report.is_passed(), "{report}");
    assert_eq!(report.not_applicable(), [""; 0]);
}

/// Cookies of the driver.
const OWNER: u64 = 0x4c48 << 48;
const OWNER_MASK: u64 = 0xffff << 48;
/// Flows that another client makes: one is as narrow as a circuit, and one is in the table of records.
const FOREIGN: [&str; 3] = [
    "cookie=9,priority=39808,tcp,tp_dst=1001,actions=normal",
    "cookie=9,priority=39613,udp,tp_dst=1009,actions=drop",
    "cookie=9,table=253,metadata=1,actions=drop",
];
/// Meters that another client makes, of which two have numbers of the driver.
const FOREIGN_METERS: [u64; 3] = [7, 19529, 19531];
