//! Delta transfer: of changed files, only the changes are sent.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::time::Duration;

use lighthaul_io::host::wait::pause;
use serde_json::Value;

use crate::far::Far;
use crate::resume::SLOWLY;
use crate::running::{Outcome, Running, becomes_true};
use crate::scratch::{look, names, noise};

const MIB: u64 = 1 << 20;
const ALWAYS: [&str; 3] = ["--json", "--delta", "always"];

/// Returns files with a delta, bytes that the old versions had, and bytes that were sent.
fn delta(outcome: Outcome) -> (u64, u64, u64) {
    let summary: Value = outcome.assert_succeeded().event("summary");
    let number = |name: &str| summary[name].as_u64().unwrap();
    assert!(summary["verified"].as_bool().unwrap());
    (
        number("delta_files"),
        number("delta_bytes_copied"),
        number("delta_bytes_sent"),
    )
}

/// Writes noise over some bytes of a file.
fn replace(path: &Path, at: u64, len: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(&noise(len, at ^ 5), at).unwrap();
}

/// Returns a copied file `x` of `len` bytes.
fn copied(far: &Far, len: u64) -> std::path::PathBuf {
    let file = far.near.file("x", len);
    far.push(&["--json"], &[&file], "x").assert_succeeded();
    file
}

#[test]
fn only_replaced_blocks_are_sent() {
    let far = Far::start("delta-replaced", &[]);
    let file = copied(&far, 40 * MIB + 77);
    for verify in [
        &["--checksum"][..],
        &["--verify=disk"],
        &["--digest", "blake3"],
    ] {
        for at in (0..40).step_by(3) {
            replace(&file, at * MIB + 5000, 100);
        }
        let options = [&ALWAYS[..], verify].concat();
        let (files, matched, sent) = delta(far.push(&options, &[&file], "x"));
        assert_eq!((files, matched + sent), (1, 40 * MIB + 77));
        assert!(sent <= 14 * (8 << 10) + 77, "{sent}");
        assert!(look(&far.target.join("x")) == look(&file));
        assert_eq!(names(&far.target), ["x"]);
    }
}

#[test]
fn blocks_after_inserted_and_removed_bytes_are_found() {
    let far = Far::start("delta-moved", &[]);
    let file = copied(&far, 20 * MIB);
    let old = fs::read(&file).unwrap();
    let (front, middle, end) = (noise(1000, 1), noise(3000, 2), noise(70_000, 3));
    let half = 10 << 20;
    let new = [&front, &old[..half], &middle, &old[half + 4321..], &end].concat();
    fs::write(&file, &new).unwrap();
    let (_, _, sent) = delta(far.push(&ALWAYS, &[&file], "x"));
    assert!(sent < 74_000 + 5 * (8 << 10), "{sent}");
    assert!(look(&far.target.join("x")) == look(&file));
    // and a part of it, pulled
    let back = far.near.file("back", 5);
    fs::write(&back, &new).unwrap();
    fs::write(far.target.join("x"), &new[3 << 20..9 << 20]).unwrap();
    let pulled = far.pull(&ALWAYS, &["x"], back.to_str().unwrap());
    let (_, matched, sent) = delta(pulled);
    assert!(sent < 8 << 10 && matched > 5 << 20, "{matched} {sent}");
    assert!(look(&far.target.join("x")) == look(&back));
}

#[test]
fn delta_is_used_where_the_path_is_slow_and_never_if_not_wanted() {
    let far = Far::start("delta-auto", &[]);
    let file = copied(&far, 2 * MIB);
    let mut changed = 0;
    for (options, files) in [
        (&["--json", "--rate", "80Mb/s"][..], 1),
        (&["--json", "--rate", "5Gb/s"], 0),
        (&["--json", "--rate", "80Mb/s", "-W"], 0),
        (&["--json", "--rate", "80Mb/s", "--delta", "never"], 0),
        (&["--json", "--rate", "5Gb/s", "--no-whole-file"], 1),
        (&["--json", "--delta=always", "--inplace"], 0),
        (&["--json", "--delta=never", "--no-whole-file"], 1),
    ] {
        changed += 1;
        replace(&file, changed * 100_000, 50);
        let (used, ..) = delta(far.push(options, &[&file], "x"));
        assert_eq!(used, files, "{options:?}");
        assert!(look(&far.target.join("x")) == look(&file));
    }
    let small = far.near.file("small", 200 << 10);
    for _ in 0..2 {
        replace(&small, 100, 50);
        assert_eq!(delta(far.push(&ALWAYS, &[&small], "small")).0, 0);
    }
}

#[test]
fn file_with_new_content_is_sent_as_a_whole() {
    let far = Far::start("delta-new", &[]);
    let file = copied(&far, 3 * MIB);
    fs::write(&file, noise(3 * MIB, 99)).unwrap();
    let (files, matched, sent) = delta(far.push(&ALWAYS, &[&file], "x"));
    assert_eq!((files, matched, sent), (1, 0, 3 * MIB));
    assert!(look(&far.target.join("x")) == look(&file));
}

#[test]
fn interrupted_delta_resumes_with_a_delta_of_missing_bytes() {
    let far = Far::start("delta-resume", &[]);
    let file = copied(&far, 60 * MIB);
    // more new data than a slow path carries at once
    replace(&file, 10 * MIB, 30 * MIB);
    let mut copy = begun(&far, &file, "40Mb/s");
    becomes_true("new data is proved", || proved(&far.target) > 31 * MIB);
    copy.kill();
    let outcome = far.push(&ALWAYS, &[&file], "x").assert_succeeded();
    let moved = outcome.event("summary")["bytes_moved"].as_u64().unwrap();
    assert!(moved < 30 * MIB, "{moved}");
    let (_, _, sent) = delta(outcome);
    assert!(sent <= moved, "{sent} {moved}");
    assert!(look(&far.target.join("x")) == look(&file));
    assert_eq!(names(&far.target), ["x"]);
}

#[test]
fn summary_of_a_reconnected_copy_includes_the_deltas_of_all_attempts() {
    let mut far = Far::start("delta-again", &[]);
    let file = copied(&far, 60 * MIB);
    replace(&file, 10 * MIB, 30 * MIB);
    let mut command = far.near.cp(&SLOWLY);
    command
        .args(["--delta", "always", "-T", "--pin", &far.pin, "--key"])
        .arg(far.near.key())
        .arg(&file)
        .arg(far.place("x"));
    let copy = Running::start(command);
    let folder = far.target.clone();
    becomes_true("new data are proved", || proved(&folder) > 31 * MIB);
    far.restart();
    let outcome = copy.finish().assert_succeeded();
    assert!(outcome.said("retrying in 1 s"), "{outcome:?}");
    let (_, matched, sent) = delta(outcome);
    // the bytes under way when the connection was lost count twice
    assert!(matched + sent >= 60 * MIB, "{matched} {sent}");
    assert!(look(&far.target.join("x")) == look(&file));
}

/// Returns the bytes in the records of the journal in `folder`.
pub(crate) fn proved(folder: &Path) -> u64 {
    let names = names(folder);
    let journal = names.iter().find(|name| name.ends_with(".journal"));
    let octets = journal.map(|name| fs::read(folder.join(name)).unwrap_or_default());
    let octets = octets.unwrap_or_default();
    let records = octets.get(40..).unwrap_or_default().as_chunks::<22>().0;
    let number = |octets: &[u8]| u64::from_be_bytes(octets.try_into().unwrap());
    let lens = records
        .iter()
        .map(|record| number(&record[8..16]) - number(&record[..8]));
    lens.sum()
}

/// Returns a copy of a file with much new data at this rate, once an object of old data is proved.
fn begun(far: &Far, file: &Path, rate: &str) -> Running {
    let options = ["--json", "--delta", "always", "--rate", rate];
    let paths = [file.to_str().unwrap(), &far.place("x")];
    let mut copy = Running::start(far.copy(&options, &paths));
    copy.prints("\"type\":\"start\"");
    becomes_true("old data are proved", || proved(&far.target) > 0);
    copy
}

#[test]
fn file_is_sent_as_a_whole_if_its_old_version_changes_during_the_copy() {
    let far = Far::start("delta-truncated", &[]);
    let there = far.target.join("x");
    for change in [truncate, overwrite, remove] {
        let file = copied(&far, 9 * MIB);
        replace(&file, 5 * MIB, 3 * MIB);
        let copy = begun(&far, &file, "16Mb/s");
        change(&there);
        delta(copy.finish());
        assert!(look(&there) == look(&file));
    }
}

fn truncate(path: &Path) {
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(9)
        .unwrap();
}

fn overwrite(path: &Path) {
    replace(path, 0, 9 * MIB);
}

fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
}

#[test]
fn source_that_changes_during_the_copy_is_not_published() {
    let far = Far::start("delta-changed", &[]);
    let file = copied(&far, 20 * MIB);
    let before = look(&far.target.join("x"));
    replace(&file, MIB, 6 * MIB);
    let copy = begun(&far, &file, "20Mb/s");
    replace(&file, 15 * MIB, 10);
    copy.finish().assert_failed(24, "changed");
    assert!(look(&far.target.join("x")) == before);
}

#[test]
fn only_a_regular_file_is_a_delta_basis_and_other_hard_links_are_kept() {
    let far = Far::start("delta-kinds", &[]);
    let file = copied(&far, MIB);
    let there = far.target.join("x");
    let other = far.target.join("other");
    fs::hard_link(&there, &other).unwrap();
    let old = fs::read(&other).unwrap();
    replace(&file, 1000, 50);
    assert_eq!(delta(far.push(&ALWAYS, &[&file], "x")).0, 1);
    assert!(fs::read(&other).unwrap() == old);
    assert_eq!(fs::metadata(&there).unwrap().nlink(), 1);
    // a symbolic link is replaced, and what it leads to is not read
    fs::remove_file(&there).unwrap();
    symlink("other", &there).unwrap();
    assert_eq!(delta(far.push(&ALWAYS, &[&file], "x")).0, 0);
    assert!(look(&there) == look(&file));
    assert!(fs::read(&other).unwrap() == old);
}

#[test]
fn holes_and_zeros_are_reproduced_exactly() {
    let far = Far::start("delta-holes", &[]);
    let len = 16 * MIB;
    for options in [&[][..], &["--sparse"]] {
        let file = copied(&far, len);
        let bytes = fs::read(&file).unwrap();
        // zeros and holes where the old version has data
        let source = File::create(&file).unwrap();
        source.set_len(len).unwrap();
        source.write_all_at(&bytes[..5 << 20], 0).unwrap();
        source.write_all_at(&vec![0; 1 << 20], 5 * MIB).unwrap();
        source.write_all_at(&bytes[9 << 20..], 9 * MIB).unwrap();
        source.write_all_at(&[7; 5000], 12 * MIB + 5).unwrap();
        let options = [&ALWAYS[..], options].concat();
        let (_, _, sent) = delta(far.push(&options, &[&file], "x"));
        assert!(sent < 2 * MIB, "{sent}");
        assert!(look(&far.target.join("x")) == look(&file));
        let blocks = fs::metadata(far.target.join("x")).unwrap().blocks() * 512;
        assert!(blocks <= len - 2 * MIB, "{blocks}");
    }
}

#[test]
fn many_files_of_a_tree_have_deltas_concurrently() {
    let far = Far::start("delta-tree", &[]);
    let tree = far.near.folder("tree");
    for number in 0..40 {
        fs::write(tree.join(number.to_string()), noise(300 << 10, number)).unwrap();
    }
    far.push(&["--json"], &[&tree], "t").assert_succeeded();
    for number in 0..40_u64 {
        replace(&tree.join(number.to_string()), number * 7000, 50);
    }
    let (files, _, sent) = delta(far.push(&ALWAYS, &[&tree], "t"));
    assert_eq!(files, 40);
    assert!(sent < 40 * (4 << 10), "{sent}");
    for number in 0..40 {
        let name = number.to_string();
        let there = [far.target.join("t"), far.target.join("t/tree")];
        let there = there
            .iter()
            .map(|folder| folder.join(&name))
            .find(|path| path.exists());
        assert!(look(&there.unwrap()) == look(&tree.join(&name)));
    }
}

#[test]
fn dry_run_reports_that_a_delta_may_be_sent() {
    let far = Far::start("delta-dry", &[]);
    let file = copied(&far, 2 * MIB);
    replace(&file, 1000, 50);
    let outcome = far.push(&["-n=explain"], &[&file], "x").assert_succeeded();
    let lines = [outcome.out, outcome.err].concat();
    assert!(lines.iter().any(|line| line.contains("delta")), "{lines:?}");
}

#[test]
fn after_a_kill_at_any_time_the_old_or_the_new_file_exists() {
    let far = Far::start("delta-killed", &[]);
    let file = copied(&far, 12 * MIB);
    let there = far.target.join("x");
    for round in 0..6 {
        let before = look(&there);
        replace(&file, round * MIB, 3 * MIB);
        let mut copy = Running::start(far.copy(
            &["--json", "--rate", "100Mb/s", "--delta", "always"],
            &[file.to_str().unwrap(), &far.place("x")],
        ));
        // from the start to near the end
        if round > 0 {
            copy.prints("\"type\":\"start\"");
            pause(Duration::from_millis(60 * (round - 1)));
        }
        copy.kill();
        let left = look(&there);
        assert!(left == before || left == look(&file), "{round}");
        delta(far.push(&ALWAYS, &[&file], "x"));
        assert!(look(&there) == look(&file), "{round}");
        assert_eq!(names(&far.target), ["x"], "{round}");
    }
}

#[test]
fn delta_works_with_options_for_temporary_files_and_verification() {
    let far = Far::start("delta-partial", &[]);
    let file = copied(&far, 9 * MIB);
    let all = [
        &["--partial-dir", "part"][..],
        &["-b"],
        &["--verify=disk", "--partial-dir", "part"],
        &["--hash", "sha256"],
        &["--verify=none"],
    ];
    for (options, at) in all.into_iter().zip(0..) {
        replace(&file, at * MIB, 100);
        let options = [&ALWAYS[..], options].concat();
        let outcome = far.push(&options, &[&file], "x").assert_succeeded();
        let summary = outcome.event("summary");
        assert_eq!(summary["delta_files"], 1, "{options:?}");
        assert_eq!(summary["delta_bytes_sent"], 4096, "{options:?}");
        assert!(look(&far.target.join("x")) == look(&file), "{options:?}");
        assert!(!far.target.join("part").exists());
    }
}
