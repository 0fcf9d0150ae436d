//! Power cuts: what `lighthaul` keeps on a disk that forgets what was not flushed.
//!
//! Each test runs in namespaces of its own. `cargo xtask crash` makes more cuts.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a seed can be given again")]

use std::env;
use std::fs;
use std::path::Path;

use lighthaul_io::host::clock::unix_nanos;
use lighthaul_powercut::sandbox;
use lighthaul_powercut::scenarios::round::Round;
use lighthaul_testkit::lacks;

#[test]
fn keys_and_lists_survive_power_cuts() {
    start(
        "keys_and_lists_survive_power_cuts",
        "cuts",
        "keys known-hosts allowed tokens",
    );
}

#[test]
fn copies_survive_power_cuts() {
    start(
        "copies_survive_power_cuts",
        "cuts",
        "large small replace resume",
    );
}

#[test]
fn copies_of_other_kinds_survive_power_cuts() {
    let names = "inplace partial-dir delete nested";
    start("copies_of_other_kinds_survive_power_cuts", "cuts", names);
}

#[test]
fn reservations_survive_power_cuts() {
    start("reservations_survive_power_cuts", "cuts", "books");
}

#[test]
fn failing_devices_are_reported_and_leave_no_wrong_file() {
    let names = "allowed replace small";
    start(
        "failing_devices_are_reported_and_leave_no_wrong_file",
        "faults",
        names,
    );
}

/// Runs the test below with these scenarios, in a sandbox.
#[expect(
    clippy::print_stdout,
    reason = "a seed that nobody sees repeats nothing"
)]
fn start(test: &str, what: &str, names: &str) {
    if lacks(test, sandbox::available()) {
        return;
    }
    let seed = env::var(SEED).unwrap_or_else(|_| unix_nanos().to_string());
    println!("repeat with {SEED}={seed}");
    let mut inside = sandbox::command(&env::current_exe().unwrap(), 300);
    inside.args(["inside", "--exact", "--ignored", "--nocapture"]);
    inside.env(SEED, seed).env(WHAT, what).env(NAMES, names);
    let output = inside.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{said}\n{errors}");
    assert!(output.status.success(), "{}", output.status);
}

/// What the tests above run.
#[test]
#[ignore = "it is started by other tests"]
fn inside() {
    let (Ok(seed), Ok(what), Ok(names)) = (env::var(SEED), env::var(WHAT), env::var(NAMES)) else {
        return;
    };
    let names: Vec<&str> = names.split(' ').collect();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("power-{}-{what}", names[0]));
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder).unwrap();
    let fails = what == "faults";
    let round = Round {
        program: Path::new(env!("CARGO_BIN_EXE_lighthaul")),
        folder: &folder,
        seed: seed.parse().unwrap(),
        cuts: if fails { 9 } else { 20 },
        cuts_each: 20,
        repeat_each: 3,
        fails,
    };
    let total = round.run(&names, &|| true, &mut |name, tally| {
        println!("{name}: {tally}");
    });
    let total = total.unwrap();
    let left = (total.skipped, total.faults);
    assert_eq!(left, (0, 0), "repeat with {SEED}={seed}");
    fs::remove_dir_all(&folder).ok();
}

const SEED: &str = "LIGHTHAUL_POWERCUT_SEED";
const WHAT: &str = "LIGHTHAUL_POWERCUT_WHAT";
const NAMES: &str = "LIGHTHAUL_POWERCUT_NAMES";
