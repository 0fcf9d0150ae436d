//! Processes that die or are stopped in the middle of a blast, and the reaction of the other side.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lighthaul_base::Rng;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_io::host::wait::pause;

use crate::far::{Far, Near};
use crate::running::{Running, becomes_true};
use crate::scratch::{look, names, noise, tree};
use crate::stage::Stage;
use lighthaul_testkit::allowance;

/// A copy that has begun, and would take some seconds more.
fn begun(far: &Far, source: &str, target: &str) -> Running {
    let options = ["--json", "--rate", "5Mb/s"];
    let mut copy = Running::start(far.copy(&options, &[source, target]));
    copy.prints("\"type\":\"progress\"");
    copy
}

/// A daemon and a file of ten seconds on both sides, too small for a journal: an end of the copy leaves nothing of it.
fn start(name: &str) -> (Far, String) {
    let far = Far::start(name, &[]);
    let file = far.near.file("large", 7_000_000);
    fs::create_dir(far.target.join("in")).unwrap();
    fs::hard_link(&file, far.target.join("large")).unwrap();
    (far, file.to_str().unwrap().to_owned())
}

fn holds_temporary(folder: &Path) -> bool {
    names(folder)
        .iter()
        .any(|name| name.starts_with(".lighthaul-"))
}

#[test]
fn killed_receiving_daemon_is_detected_at_once() {
    let (mut far, file) = start("daemon-dies-receiving");
    let copy = begun(&far, &file, &far.place("in/x"));
    assert!(
        holds_temporary(&far.target.join("in")),
        "the test comes too early"
    );
    far.daemon.kill();
    let outcome = copy
        .finish()
        .assert_failed(10, "the connection to 127.0.0.1");
    assert_eq!(outcome.events().pop().unwrap()["code"], 10);
    // files that a dead daemon leaves are hidden
    assert!(
        names(&far.target.join("in"))
            .iter()
            .all(|name| name.starts_with('.'))
    );
}

#[test]
fn killed_sending_daemon_is_detected_and_leaves_no_files() {
    let (mut far, _) = start("daemon-dies-sending");
    let back = far.near.folder("back");
    let copy = begun(&far, &far.place("large"), back.join("x").to_str().unwrap());
    assert!(holds_temporary(&back), "the test comes too early");
    far.daemon.kill();
    copy.finish()
        .assert_failed(10, "the connection to 127.0.0.1");
    assert!(names(&back).is_empty());
}

#[test]
fn killed_client_leaves_no_files_and_other_clients_are_served() {
    let (mut far, file) = start("client-dies");
    let inside = far.target.join("in");
    let mut copy = begun(&far, &file, &far.place("in/x"));
    assert!(holds_temporary(&inside), "the test comes too early");
    copy.kill();
    far.daemon.says("the connection to 127.0.0.1");
    becomes_true("the daemon has cleaned up", || names(&inside).is_empty());
    let back = far.near.folder("back");
    let mut copy = begun(&far, &far.place("large"), back.join("x").to_str().unwrap());
    copy.kill();
    assert!(names(&back).iter().all(|name| name.starts_with('.')));
    far.push(&[], &[Path::new(&file)], "in/x")
        .assert_succeeded();
    assert!(look(&inside.join("x")) == look(Path::new(&file)));
    assert_eq!(names(&inside), ["x"]);
}

#[test]
fn interrupted_copy_cleans_up_on_both_sides() {
    let (mut far, file) = start("interrupt");
    let inside = far.target.join("in");
    let copy = begun(&far, &file, &far.place("in/x"));
    assert!(holds_temporary(&inside), "the test comes too early");
    copy.signal("INT");
    let outcome = copy.finish().assert_failed(20, "interrupted");
    assert!(outcome.time < allowance(5), "{outcome:?}");
    far.daemon.says("interrupted");
    becomes_true("the daemon has cleaned up", || names(&inside).is_empty());
    let back = far.near.folder("back");
    let copy = begun(&far, &far.place("large"), back.join("x").to_str().unwrap());
    assert!(holds_temporary(&back), "the test comes too early");
    copy.signal("TERM");
    copy.finish().assert_failed(20, "interrupted");
    assert!(names(&back).is_empty());
}

#[test]
fn simultaneous_signals_interrupt_a_copy_once() {
    let (far, file) = start("interrupt-twice");
    let copy = begun(&far, &file, &far.place("in/x"));
    copy.signal("STOP");
    becomes_true("the copy is stopped", || is_stopped(&copy));
    // when it wakes, the other side still waits
    for signal in ["INT", "TERM", "CONT"] {
        copy.signal(signal);
    }
    copy.finish().assert_failed(20, "interrupted");
    becomes_true("the daemon has cleaned up", || {
        names(&far.target.join("in")).is_empty()
    });
}

/// Reports whether a signal has stopped all threads of a program.
fn is_stopped(program: &Running) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", program.id())).unwrap();
    tasks.map_while(Result::ok).all(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.contains(") T ")
    })
}

#[test]
fn stopped_daemon_reports_the_stop_and_cleans_up() {
    let (far, file) = start("daemon-stopped");
    let copy = begun(&far, &file, &far.place("in/x"));
    far.daemon.signal("TERM");
    let outcome = copy.finish();
    assert_eq!(outcome.code, Some(75), "{outcome:?}");
    assert!(outcome.said("is being stopped; try again"), "{outcome:?}");
    let Far {
        daemon,
        target,
        near,
        ..
    } = far;
    let outcome = daemon.finish();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(names(&target.join("in")).is_empty());
    drop(near);
}

#[test]
fn killed_ssh_copy_ends_the_remote_program() {
    let near = Near::new("ssh-dies", None);
    let home = near.folder("home");
    let script = near.at("ssh");
    let pid = near.at("pid");
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = -G ] && exec echo hostname 127.0.0.1\n\
         shift 2; cd '{}'; echo $$ > '{}'; exec \"$@\"\n",
        home.display(),
        pid.display(),
    );
    fs::write(&script, text).unwrap();
    let status = Command::new("chmod")
        .arg("+x")
        .arg(&script)
        .status()
        .unwrap();
    assert!(status.success());
    let file = near.file("large", 7_000_000);
    let mut copy = near.cp(&[
        "--json",
        "--rate",
        "5Mb/s",
        "--remote",
        crate::far::PROGRAM,
        "-e",
    ]);
    copy.arg(&script).arg(&file).arg("host:x");
    let mut copy = Running::start(copy);
    copy.prints("\"type\":\"progress\"");
    assert!(holds_temporary(&home), "the test comes too early");
    copy.kill();
    let far = fs::read_to_string(&pid).unwrap();
    let far = Path::new("/proc").join(far.trim());
    becomes_true("the far side has ended", || !far.exists());
    assert!(names(&home).is_empty());
}

/// A directory of 100 MB: two large files, and many small ones.
fn orchard(near: &Near) -> std::path::PathBuf {
    let root = near.folder("orchard");
    for nth in 0..2 {
        fs::write(root.join(format!("large-{nth}")), noise(30_000_000, nth)).unwrap();
    }
    for nth in 0..400 {
        let inner = root.join(format!("d{}", nth % 7));
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join(format!("small-{nth}")), noise(100_000, nth)).unwrap();
    }
    root
}

/// A seed that is new in each run, unless one is given. The output of a failed test has it.
#[expect(clippy::disallowed_methods, reason = "a test repeats seeds")]
#[expect(clippy::print_stdout, reason = "a test that fails shows it")]
fn seed() -> u64 {
    const SEED: &str = "LIGHTHAUL_CRASH_SEED";
    let given = std::env::var(SEED).ok();
    let seed = given.map_or_else(unix_nanos, |seed| seed.parse().unwrap());
    println!("repeat with {SEED}={seed}");
    seed
}

/// After a kill, each file with its final name is complete and correct. Directories may be incomplete, and temporary
/// files may disappear meanwhile.
fn assert_whole(target: &Path, source: &Path) {
    let Ok(items) = fs::read_dir(target) else {
        return;
    };
    for path in items.map(|item| item.unwrap().path()) {
        let name = path.file_name().unwrap();
        if name.as_encoded_bytes().starts_with(b".lighthaul-") {
            continue;
        }
        let original = source.join(name);
        if path.is_dir() {
            assert_whole(&path, &original);
        } else {
            assert!(
                look(&path) == look(&original),
                "{} is not whole",
                path.display()
            );
        }
    }
}

/// Number of kills; `cargo xtask crash` makes more.
#[test]
fn copy_killed_at_any_time_is_completed_by_the_same_command() {
    const BYTES: u64 = 100_000_000;
    /// Two lanes, each with an object of half a second and a quarter.
    const IN_FLIGHT: u64 = 2 * 12_500_000 * 5 / 4;
    let name = "copy_killed_at_any_time_is_completed_by_the_same_command";
    let seed = seed();
    let path = "rate = \"400Mb/s\"\nrtt = \"50ms\"\nloss = \"0.1%\"";
    let Some(stage) = Stage::pair(name, path) else {
        return;
    };
    let mut far = Far::start_on("killed", stage);
    let source = orchard(&far.near);
    let mut rng = Rng::new(seed);
    let delivered = |far: &Far| {
        let counters = far.near.stage.as_ref().unwrap().lab.counters();
        counters.link("a", "b").unwrap().seen.delivered.bytes
    };
    // a busy host receives some of them too late for its buffers
    let dropped = |far: &Far| {
        let lab = &far.near.stage.as_ref().unwrap().lab;
        let counters = lab
            .command("b", "cat")
            .unwrap()
            .arg("/proc/net/snmp")
            .output();
        let counters = String::from_utf8(counters.unwrap().stdout).unwrap();
        let lines: Vec<_> = counters
            .lines()
            .filter(|line| line.starts_with("Udp: "))
            .collect();
        let mut fields = lines[0].split(' ').zip(lines[1].split(' '));
        let (_, count) = fields.find(|(name, _)| *name == "RcvbufErrors").unwrap();
        count.parse::<u64>().unwrap() * 1500
    };
    for run in 0..3 {
        let before = delivered(&far) - dropped(&far);
        let place = far.place("copy");
        let paths = [source.to_str().unwrap(), place.as_str()];
        let options = ["--json", "--rate", "200Mb/s"];
        let mut copy = Running::start(far.copy(&options, &paths));
        copy.prints("\"type\":\"start\"");
        let time = Duration::from_millis(rng.below(3500));
        pause(time);
        if run % 2 == 0 {
            far.daemon.kill();
            let outcome = copy.finish();
            // a busy host may kill it too late
            if outcome.code != Some(0) {
                outcome.assert_failed(10, "the connection to 10.77.");
            }
            far.restart();
        } else {
            copy.kill();
        }
        assert_whole(&far.target.join("copy"), &source);
        far.run(&options, &paths).assert_succeeded();
        assert_eq!(
            tree(&far.target.join("copy")),
            tree(&source),
            "after {time:?}"
        );
        assert_eq!(far.names(), ["copy"], "after {time:?}");
        // headers, probes and losses are one twentieth
        let crossed = (delivered(&far) - dropped(&far) - before) * 20 / 21;
        let again = crossed.saturating_sub(BYTES);
        println!("killed after {time:?}: {again} bytes crossed again");
        assert!(
            again < BYTES / 50 + IN_FLIGHT,
            "{again} bytes crossed again"
        );
        fs::remove_dir_all(far.target.join("copy")).unwrap();
    }
}
