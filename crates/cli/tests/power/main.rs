//! Power cuts: durability of files on a disk that loses all data that was not flushed.
//!
//! Each test runs in namespaces of its own. `cargo xtask crash` makes more cuts.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test repeats seeds")]

use std::path::Path;
use std::{env, fs};

use lighthaul_io::host::clock::unix_nanos;
use lighthaul_powercut::device::Fault;
use lighthaul_powercut::filesystem::FileSystem;
use lighthaul_powercut::rig::Rig;
use lighthaul_powercut::sandbox;
use lighthaul_powercut::scenarios::program::Program;
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
fn inplace_partial_dir_and_delete_survive_power_cuts() {
    let names = "inplace partial-dir delete move nested";
    start(
        "inplace_partial_dir_and_delete_survive_power_cuts",
        "cuts",
        names,
    );
}

#[test]
fn reservations_survive_power_cuts() {
    start("reservations_survive_power_cuts", "cuts", "books");
}

#[test]
fn failing_devices_are_reported_and_wrong_files_are_not_published() {
    let names = "allowed replace small";
    start(
        "failing_devices_are_reported_and_wrong_files_are_not_published",
        "faults",
        names,
    );
}

#[test]
fn reading_back_from_the_device_finds_altered_bytes() {
    start(
        "reading_back_from_the_device_finds_altered_bytes",
        "alters",
        "altered",
    );
}

/// Runs the test below with these scenarios, in a sandbox.
#[expect(
    clippy::print_stdout,
    reason = "the seed must be visible, to repeat a failure"
)]
fn start(test: &str, what: &str, names: &str) {
    if lacks(test, sandbox::available()) {
        return;
    }
    let seed = env::var(SEED).unwrap_or_else(|_| unix_nanos().to_string());
    println!("repeat with {SEED}={seed}");
    let mut inside = sandbox::command(&env::current_exe().unwrap(), 300);
    inside.args([
        "child_runs_scenarios_in_a_sandbox",
        "--exact",
        "--ignored",
        "--nocapture",
    ]);
    inside.env(SEED, seed).env(WHAT, what).env(NAMES, names);
    let output = inside.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{said}\n{errors}");
    assert!(output.status.success(), "{}", output.status);
}

/// Runs one test.
#[test]
#[ignore = "it is started by other tests"]
fn child_runs_scenarios_in_a_sandbox() {
    let (Ok(seed), Ok(what), Ok(names)) = (env::var(SEED), env::var(WHAT), env::var(NAMES)) else {
        return;
    };
    let names: Vec<&str> = names.split(' ').collect();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("power-{}-{what}", names[0]));
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder).unwrap();
    if what == "alters" {
        copy_to_altering_device(&folder);
        return fs::remove_dir_all(&folder).unwrap();
    }
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

/// Copies a file to a device that silently stores other bytes, which `--verify=disk` notices.
fn copy_to_altering_device(folder: &Path) {
    const MARK: &[u8] = b"stored with one bit flipped";
    let aside = folder.join("aside");
    fs::create_dir_all(&aside).unwrap();
    let mut bytes: Vec<u8> = (0..1_u32 << 20).map(|n| (n % 251) as u8).collect();
    bytes[600_000..600_000 + MARK.len()].copy_from_slice(MARK);
    let source = aside.join("source");
    fs::write(&source, &bytes).unwrap();
    let empty = FileSystem::Ext4.make(folder).unwrap();
    let rig = Rig::start(folder, "altering", empty).unwrap();
    rig.device().fail(Fault::Alters(MARK));
    let disk = rig.mount(FileSystem::Ext4).unwrap();
    let program = Program::new(Path::new(env!("CARGO_BIN_EXE_lighthaul")), &aside);
    let copy = |option: &str, name: &str| {
        let (_server, address) = program.serve_folder(&aside, disk.path()).unwrap();
        let target = format!("lh://{address}/{name}");
        let words = ["cp", option, source.to_str().unwrap(), &target];
        program.run(&aside, &words)
    };
    copy("--verify=disk", "read-back").unwrap_err();
    let why = copy("--verify=disk", "read-back").unwrap_err();
    assert!(why.contains("exit status: 12"), "{why}");
    assert!(!disk.path().join("read-back").exists());
    copy("--hash=blake3", "not-read").unwrap();
    disk.unmount().unwrap();
    let disk = rig.mount(FileSystem::Ext4).unwrap();
    assert!(fs::read(disk.path().join("not-read")).unwrap() != bytes);
}

const SEED: &str = "LIGHTHAUL_POWERCUT_SEED";
const WHAT: &str = "LIGHTHAUL_POWERCUT_WHAT";
const NAMES: &str = "LIGHTHAUL_POWERCUT_NAMES";
