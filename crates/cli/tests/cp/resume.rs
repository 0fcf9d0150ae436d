//! Copies that resume an earlier one, and copies with nothing to do.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use lighthaul_booking_client::json::Timestamp;
use lighthaul_io::host::clock::unix_nanos;
use serde_json::Value;

use crate::delta::proved;
use crate::far::Far;
use crate::running::{Outcome, Running};
use crate::scratch::{dress, look, names, tree};
use crate::third::Pair;
use lighthaul_testkit::allowance;

/// Bytes of a file that takes some objects of 4 MiB, and about ten seconds.
const LEN: u64 = 40 << 20;
/// Options of a copy that takes that long.
pub(crate) const SLOWLY: [&str; 3] = ["--json", "--rate", "40Mb/s"];

/// Starts a copy and waits until the receiver's journal has a part of it.
fn stopped_halfway(far: &Far, source: &str, target: &str, folder: &Path) -> Running {
    stopped_at(far, &SLOWLY, &[source, target], folder)
}

/// Does the same with other `options`.
pub(crate) fn stopped_at(far: &Far, options: &[&str], paths: &[&str], folder: &Path) -> Running {
    let mut copy = Running::start(far.copy(options, paths));
    copy.prints("\"type\":\"progress\"");
    crate::running::becomes_true("two objects are proved", || records(folder) >= 2);
    copy
}

/// Returns the number of ranges in the journals of `folder`.
fn records(folder: &Path) -> u64 {
    let journal = |name: &String| name.ends_with(".journal");
    let names = names(folder).into_iter().filter(journal);
    let sizes = names.map(|name| fs::metadata(folder.join(name)).map_or(0, |meta| meta.len()));
    sizes.map(|len| len.saturating_sub(40) / 22).sum()
}

fn summary(outcome: &Outcome) -> Value {
    outcome.event("summary")
}

/// Asserts that `outcome` is a success that sent less than `bytes`.
fn moved_less(outcome: Outcome, bytes: u64) {
    let outcome = outcome.assert_succeeded();
    let summary = summary(&outcome);
    let number = |name: &str| summary[name].as_u64().unwrap();
    let (whole, moved) = (number("bytes"), number("bytes_moved"));
    assert!(moved < bytes, "{moved} of {bytes} bytes: {outcome:?}");
    // what an earlier run has sent counts, too
    assert!(whole >= bytes && number("entries") > 0, "{outcome:?}");
}

#[test]
fn resume_after_a_killed_client_sends_only_missing_bytes() {
    let far = Far::start("resume-client", &[]);
    let file = far.near.file("x", LEN);
    let inside = far.target.clone();
    let mut copy = stopped_halfway(&far, file.to_str().unwrap(), &far.place("x"), &inside);
    copy.kill();
    moved_less(far.push(&["--json"], &[&file], "x"), LEN - (8 << 20) + 1);
    assert!(look(&inside.join("x")) == look(&file));
    assert_eq!(names(&inside), ["x"]);
}

#[test]
fn resume_under_a_limit_sends_only_missing_bytes() {
    let far = Far::start("resume-limit", &[]);
    let file = far.near.file("x", LEN);
    let inside = far.target.clone();
    for protocol in ["rbudp", "tcp"] {
        let options = ["--json", "--limit", "40Mbit", "--protocol", protocol];
        let paths = [file.to_str().unwrap(), &far.place("x")];
        let mut copy = stopped_at(&far, &options, &paths, &inside);
        copy.kill();
        moved_less(far.push(&["--json"], &[&file], "x"), LEN - (8 << 20) + 1);
        assert!(look(&inside.join("x")) == look(&file));
        fs::remove_file(inside.join("x")).unwrap();
    }
}

#[test]
fn resume_after_a_killed_daemon_sends_only_missing_bytes() {
    let mut far = Far::start("resume-daemon", &[]);
    let file = far.near.file("x", LEN);
    let inside = far.target.clone();
    let copy = stopped_halfway(&far, file.to_str().unwrap(), &far.place("x"), &inside);
    far.daemon.kill();
    copy.finish().assert_failed(10, "the connection to");
    far.restart();
    moved_less(far.push(&["--json"], &[&file], "x"), LEN - (8 << 20) + 1);
    assert!(look(&inside.join("x")) == look(&file));
    assert_eq!(names(&inside), ["x"]);
}

#[test]
fn interrupted_pull_resumes() {
    let far = Far::start("resume-pull", &[]);
    let file = far.near.file("x", LEN);
    fs::rename(&file, far.target.join("x")).unwrap();
    let back = far.near.folder("back");
    let place = back.join("x");
    let copy = stopped_halfway(&far, &far.place("x"), place.to_str().unwrap(), &back);
    copy.signal("INT");
    let outcome = copy
        .finish()
        .assert_failed(20, "interrupted; arrived data is kept");
    // as it says
    let line = outcome
        .err
        .iter()
        .find_map(|line| line.split_once("this command resumes: "));
    let environment = far.near.lighthaul(&[]);
    let environment = environment
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    let mut again = Command::new("sh");
    again.args(["-c", line.unwrap().1]).envs(environment);
    moved_less(far.near.run(again), LEN - (8 << 20) + 1);
    assert!(look(&place) == look(&far.target.join("x")));
    assert_eq!(names(&back), ["x"]);
}

#[test]
fn summary_includes_all_attempts() {
    let mut far = Far::start("resume-summary", &[]);
    let folder = far.near.folder("folder");
    far.near.file("folder/a", 1 << 20);
    far.near.file("folder/x", LEN);
    let mut command = far.near.cp(&SLOWLY);
    command
        .args(["-T", "--pin", &far.pin, "--key"])
        .arg(far.near.key())
        .arg(&folder)
        .arg(far.place("folder"));
    let inside = far.target.join("folder");
    let mut copy = Running::start(command);
    copy.prints("\"type\":\"progress\"");
    crate::running::becomes_true("two objects are proved", || {
        inside.is_dir() && records(&inside) >= 2
    });
    far.restart();
    let outcome = copy.finish().assert_succeeded();
    assert!(outcome.said("retrying in 1 s"), "{outcome:?}");
    let summary = summary(&outcome);
    let number = |name: &str| summary[name].as_f64().unwrap();
    // the last data before the loss of the connection may not be in the journal
    let all = (LEN + (1 << 20)) as f64;
    assert!(number("bytes_moved") > 0.95 * all, "{summary}");
    // at most 40 Mb/s, and a second's pause
    let at_least = number("bytes_moved") * 8.0 / 40e6;
    assert!(number("elapsed_s") > at_least, "{summary}");
    assert!(number("moving_s") > at_least, "{summary}");
    // the first attempt published the directory and its first file
    assert_eq!(summary["unchanged"], 0, "{summary}");
    assert!(look(&inside.join("x")) == look(&folder.join("x")));
}

/// Asserts that a summary counts a file of [`LEN`] bytes, and the time that both attempts took.
fn assert_whole(summary: &Value) {
    let number = |name: &str| summary[name].as_f64().unwrap();
    assert!(number("bytes_moved") > 0.95 * LEN as f64, "{summary}");
    let at_least = number("bytes_moved") * 8.0 / 40e6;
    assert!(number("elapsed_s") > at_least, "{summary}");
    assert!(number("moving_s") > at_least, "{summary}");
    assert!(number("goodput_bps") <= 40e6, "{summary}");
    assert_eq!(summary["unchanged"], 0, "{summary}");
}

#[test]
fn summary_of_a_pull_and_of_a_third_party_copy_includes_all_attempts() {
    let mut pair = Pair::start("resume-whole", &[], &[]);
    let file = pair.a.near.file("x", LEN);
    fs::rename(file, pair.a.target.join("x")).unwrap();
    let here = pair.a.near.folder("here");
    let mut pull = pair.a.near.cp(&SLOWLY);
    pull.args(["--pin", &pair.a.pin, "--key"])
        .arg(pair.a.near.key())
        .args([&pair.a.place("x"), here.join("x").to_str().unwrap()]);
    let third = pair.copy(&[&SLOWLY[..], &["--retries", "9"]].concat(), "x", "x");
    let folder = pair.b.target.clone();
    for (copy, folder) in [(pull, &here), (third, &folder)] {
        let copy = Running::start(copy);
        crate::running::becomes_true("two objects are proved", || records(folder) >= 2);
        pair.a.restart();
        let outcome = copy.finish().assert_succeeded();
        assert!(outcome.said("retrying in 1 s"), "{outcome:?}");
        assert_whole(&summary(&outcome));
        assert!(look(&folder.join("x")) == look(&pair.a.target.join("x")));
    }
}

#[test]
fn sentence_about_a_reconnected_copy_includes_all_attempts() {
    let mut far = Far::start("resume-sentence", &[]);
    let file = far.near.file("x", LEN);
    let mut copy = far
        .near
        .cp(&["--rate", "40Mb/s", "--pin", &far.pin, "--key"]);
    copy.arg(far.near.key()).arg(&file).arg(far.place("x"));
    let inside = far.target.clone();
    let copy = Running::start(copy);
    crate::running::becomes_true("two objects are proved", || records(&inside) >= 2);
    far.restart();
    let outcome = copy.finish().assert_succeeded();
    let line = outcome
        .err
        .iter()
        .chain(&outcome.out)
        .find_map(|line| line.split_once(" in 1 entry, "));
    let (_, rest) = line.unwrap_or_else(|| panic!("no summary: {outcome:?}"));
    let seconds: f64 = rest.split(' ').next().unwrap().parse().unwrap();
    assert!(seconds > LEN as f64 * 0.95 * 8.0 / 40e6, "{outcome:?}");
    assert!(rest.ends_with(", verified"), "{outcome:?}");
}

#[test]
fn resumed_tree_gets_the_metadata_of_the_source() {
    let far = Far::start("resume-top", &[]);
    let source = far.near.folder("private");
    far.near.file("private/x", LEN);
    fs::set_permissions(&source, fs::Permissions::from_mode(0o700)).unwrap();
    let folder = fs::File::open(&source).unwrap();
    let long_ago = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    folder.set_modified(long_ago).unwrap();
    let contents = format!("{}/", source.display());
    for signal in ["INT", "KILL"] {
        let inside = far.target.join(signal);
        let copy = stopped_halfway(&far, &contents, &far.place(signal), &inside);
        copy.signal(signal);
        assert_ne!(copy.finish().code, Some(0));
        far.push(&[], &[Path::new(&contents)], signal)
            .assert_succeeded();
        assert_eq!(names(&inside), ["x"]);
        let there = fs::metadata(&inside).unwrap();
        assert_eq!(there.mode() & 0o7777, 0o700, "{signal}");
        assert_eq!(there.modified().unwrap(), long_ago, "{signal}");
    }
}

#[test]
fn resume_rejects_a_modified_source() {
    let far = Far::start("resume-changed", &[]);
    let file = far.near.file("x", LEN);
    let inside = far.target.clone();
    let mut copy = stopped_halfway(&far, file.to_str().unwrap(), &far.place("x"), &inside);
    copy.kill();
    fs::File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .write_all_at(b"new", 5)
        .unwrap();
    far.push(&["--json"], &[&file], "x").assert_succeeded();
    assert!(look(&inside.join("x")) == look(&file));
    assert_eq!(names(&inside), ["x"]);
}

#[test]
fn damaged_journal_is_used_up_to_its_last_complete_record() {
    let far = Far::start("resume-spoilt", &[]);
    let file = far.near.file("x", LEN);
    let inside = far.target.clone();
    let mut copy = stopped_halfway(&far, file.to_str().unwrap(), &far.place("x"), &inside);
    copy.kill();
    crate::running::becomes_true("the daemon has left it", || {
        far.push(
            &["--json", "--rate", "1Gb/s"],
            &[&far.near.file("y", 1)],
            "y",
        )
        .code
            == Some(0)
    });
    let journal = names(&inside)
        .into_iter()
        .find(|name| name.ends_with(".journal"))
        .unwrap();
    let journal = fs::File::options()
        .write(true)
        .open(inside.join(journal))
        .unwrap();
    // the second record, and a torn record after it
    journal.write_all_at(b"x", 40 + 22 + 3).unwrap();
    moved_less(far.push(&["--json"], &[&file], "x"), LEN - (4 << 20) + 1);
    assert!(look(&inside.join("x")) == look(&file));
}

#[test]
fn second_copy_sends_no_data_and_repairs_modes() {
    let far = Far::start("again", &[]);
    let folder = far.near.folder("folder");
    for name in ["inner", "empty", "inner/deep"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    let mut files: Vec<PathBuf> = Vec::new();
    for (nth, len) in [(0, 0), (1, 1), (2, 70_000), (3, 3 << 20)] {
        files.push(far.near.file(&format!("folder/inner/{nth}"), len));
    }
    std::os::unix::fs::symlink("inner/1", folder.join("link")).unwrap();
    far.push(&[], &[&folder], "copy").assert_succeeded();
    fs::set_permissions(
        far.target.join("copy/inner/2"),
        PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    let outcome = far.push(&["--json"], &[&folder], "copy").assert_succeeded();
    let summary = summary(&outcome);
    assert_eq!(
        (summary["bytes_moved"].as_u64(), summary["packets"].as_u64()),
        (Some(0), Some(0))
    );
    assert_eq!(summary["unchanged"], summary["entries"], "{summary}");
    assert_eq!(tree(&folder), tree(&far.target.join("copy")));
    // only the changes are sent
    dress(&files[2], 0o640, 1_000_000_000);
    let outcome = far.push(&["--json"], &[&folder], "copy").assert_succeeded();
    assert_eq!(self::summary(&outcome)["bytes_moved"], 70_000);
    assert_eq!(tree(&folder), tree(&far.target.join("copy")));
}

#[test]
fn copy_stops_at_stop_at_and_resumes() {
    let far = Far::start("stop-at", &[]);
    let file = far.near.file("x", 30_000_000);
    let at = Timestamp(unix_nanos() + 4_000_000_000).to_string();
    let options = ["--rate", "40Mb/s", "--stop-at", &at];
    let place = far.place("copy");
    let stopped = far.run(&options, &[file.to_str().unwrap(), &place]);
    assert!(stopped.time < allowance(6), "{stopped:?}");
    stopped.assert_failed(30, "stopped at the time of --stop-at");
    assert!(!far.target.join("copy").exists());
    let proved = proved(&far.target);
    assert!(proved > 0, "nothing has arrived");
    let went_on = far.push(&["--json"], &[&file], "copy").assert_succeeded();
    moved_less(went_on, 30_000_000 - proved + 1);
    assert!(look(&far.target.join("copy")) == look(&file));
}
