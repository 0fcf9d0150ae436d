//! Conformance suite for both skeletons and the simulated device, and drivers that must not pass.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test runs programs")]
#![expect(clippy::print_stdout, reason = "seeds and reports of a failed test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_circuit::conformance::{Fault, ProgramSubject, Report, State, Subject, run};
use lighthaul_circuit::driver::{Capabilities, CountedBytes, Driver, InstalledCircuit};
use lighthaul_circuit::error::Result;
use lighthaul_circuit::exec::config::Config;
use lighthaul_circuit::sim_device::{FaultModel, SimDevice, SimFault};
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_testkit::{allowance, lacks_tool};

fn seed() -> u64 {
    let given = std::env::var("LIGHTHAUL_CONFORMANCE_SEED").ok();
    let seed = given.and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(unix_nanos);
    println!("LIGHTHAUL_CONFORMANCE_SEED={seed}");
    seed
}

fn python_skeleton() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../drivers/skeleton-python/driver.py")
}

const SKELETON: &str = env!("CARGO_BIN_EXE_lighthaul-driver-skeleton");

fn scratch(name: &str) -> PathBuf {
    let name = format!("conformance-{}-{name}.json", std::process::id());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn program(words: &[&str], file: &Path, limit: u64) -> ProgramSubject {
    let config = Config {
        program: words[0].into(),
        arguments: words[1..].iter().map(|word| (*word).to_owned()).collect(),
        limit: Duration::from_secs(limit),
    };
    ProgramSubject::new(Clock::start(), config, Some(file.to_owned()))
}

fn assert_passed(report: &Report, not_applicable: &[&str]) {
    println!("{report}");
    assert!(report.is_passed(), "{report}");
    assert_eq!(report.not_applicable(), not_applicable);
}

#[test]
fn python_skeleton_passes_the_conformance_suite() {
    if lacks_tool("python_skeleton_passes_the_conformance_suite", "python3") {
        return;
    }
    let file = scratch("python");
    let skeleton = python_skeleton();
    let words = ["/usr/bin/env", "python3", skeleton.to_str().unwrap()];
    let report = run(&mut program(&words, &file, allowance(3).as_secs()), seed());
    fs::remove_file(&file).unwrap();
    assert_passed(&report, &[]);
}

#[test]
fn rust_skeleton_passes_the_conformance_suite() {
    let file = scratch("rust");
    let report = run(
        &mut program(&[SKELETON], &file, allowance(3).as_secs()),
        seed(),
    );
    fs::remove_file(&file).unwrap();
    assert_passed(&report, &[]);
}

/// Simulated device as subject.
struct Sim(SimDevice);

impl Sim {
    fn new() -> Self {
        let capabilities = Capabilities {
            rate_min: Rate::from_mbps(2),
            rate_max: Rate::from_mbps(1000),
            granularity: Rate::from_mbps(2),
            reconfiguration: Duration::from_millis(2),
            settling: Duration::from_millis(1),
            entries_max: 40,
            counted: CountedBytes::IP,
            timer_max: None,
        };
        let model = FaultModel {
            latency_max: Duration::ZERO,
            fail_ppb: 0,
        };
        Self(SimDevice::new(capabilities, model, 1))
    }
}

impl Subject for Sim {
    fn open(&mut self) -> Result<Box<dyn Driver>> {
        Ok(Box::new(self.0.clone()))
    }

    fn interface(&self) -> String {
        "sim".to_owned()
    }

    fn compare(&mut self, expected: &State) -> std::result::Result<bool, String> {
        let found = self.0.circuits();
        let found: State = found.iter().map(|(id, one)| (*id, one.rate)).collect();
        if found == *expected {
            Ok(true)
        } else {
            Err(format!("it has {found:?}"))
        }
    }

    fn make_foreign(&mut self) -> bool {
        false
    }

    fn take_foreign(&mut self) -> bool {
        false
    }

    fn inject(&mut self, fault: Fault, after: usize) -> bool {
        let fault = match fault {
            Fault::Refuse => SimFault::Refused,
            Fault::Unreachable => SimFault::Unreachable,
            Fault::AnswerLost => SimFault::AnswerLost,
            Fault::Silence | Fault::Death => return false,
        };
        self.0.fail_change(Some(fault), after);
        true
    }

    fn calm(&mut self) {
        self.0.fail_change(None, 0);
    }
}

#[test]
fn simulated_device_passes_the_conformance_suite() {
    let report = run(&mut Sim::new(), seed());
    let left_out = [
        "circuits of other clients are kept",
        "timers close circuits without the driver",
        "no answer until the time limit",
        "a driver that ends early",
        "several failures in a row",
    ];
    assert_passed(&report, &left_out);
}

/// Edits the Python skeleton, and returns the names of the checks that fail.
fn failures_of(name: &str, from: &str, to: &str) -> Vec<&'static str> {
    let text = fs::read_to_string(python_skeleton()).unwrap();
    assert!(text.contains(from), "{from}");
    let driver = scratch(name).with_extension("py");
    fs::write(&driver, text.replace(from, to)).unwrap();
    let file = scratch(name);
    let words = ["/usr/bin/env", "python3", driver.to_str().unwrap()];
    let report = run(&mut program(&words, &file, 1), 7);
    println!("{name}:\n{report}");
    let _ = fs::remove_file(&file);
    fs::remove_file(&driver).unwrap();
    let failed = report.outcomes.iter();
    let failed = failed.filter(|(_, outcome)| {
        matches!(outcome, lighthaul_circuit::conformance::Outcome::Failed(_))
    });
    failed.map(|(name, _)| *name).collect()
}

#[test]
fn faulty_drivers_fail_the_conformance_suite() {
    if lacks_tool("faulty_drivers_fail_the_conformance_suite", "python3") {
        return;
    }
    let pop = r#"self.state["circuits"].pop(str(number), None)"#;
    let store = r#"circuits[key] = {"flow": circuit["flow"], "rate_bps": rate_bps, "closes_at": closes_at}"#;
    for (name, from, to, check) in [
        ("keeps", pop, "pass", "circuits are set and read back"),
        (
            "strict",
            pop,
            r#"del self.state["circuits"][str(number)]"#,
            "an unknown circuit can be removed",
        ),
        (
            "rounds",
            "check_rate(rate_bps)\n",
            "rate_bps = -(-rate_bps // 1_000_000) * 1_000_000\n",
            "rates never exceed the requested rates",
        ),
        (
            "steals",
            store,
            &format!("{store}; self.state[\"others\"].clear()"),
            "circuits of other clients are kept",
        ),
        (
            "stays",
            "time.time() + timer_ms / 1000",
            "None",
            "timers close circuits without the driver",
        ),
        (
            "hurries",
            "timer_ms / 1000",
            "timer_ms / 2000",
            "timers close circuits without the driver",
        ),
        (
            "lies",
            "except Refused as why:\n        return {\"fault\": \"refused\", \"reason\": str(why)}\n    except Unreachable as why:\n        return {\"fault\": \"unreachable\"",
            "except Refused as why:\n        return None\n    except Unreachable as why:\n        return {\"fault\": \"unreachable\"",
            "a refusal leaves the old state",
        ),
        (
            "overfull",
            "len(circuits) >= CAP",
            "len(circuits) > CAP",
            "a full device refuses another circuit",
        ),
    ] {
        let failed = failures_of(name, from, to);
        assert!(failed.contains(&check), "{name}: {failed:?}");
    }
}

/// Installed circuits stay comparable in tests of other crates.
#[test]
fn installed_circuit_round_trips_through_json() {
    let one: InstalledCircuit =
        serde_json::from_str(r#"{"id":1,"flow":"all","rate_bps":0}"#).unwrap();
    assert_eq!(
        serde_json::to_string(&one).unwrap(),
        r#"{"id":1,"flow":"all","rate_bps":0}"#
    );
}
