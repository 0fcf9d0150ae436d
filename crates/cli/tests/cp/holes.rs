//! Sparse files: holes are not sent, and stay holes at the target.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use lighthaul_fs::sparse::DataRanges;
use lighthaul_testkit::lacks_tool;
use serde_json::Value;

use crate::far::Far;
use crate::running::{Outcome, Running, becomes_true};
use crate::scratch::{Scratch, look, names, noise};

/// A file of `len` bytes with noise in these parts.
fn holey(scratch: &Scratch, name: &str, len: u64, parts: &[(u64, u64)]) -> PathBuf {
    let path = scratch.at(name);
    let file = fs::File::create_new(&path).unwrap();
    file.set_len(len).unwrap();
    for (from, till) in parts {
        let bytes = noise(till - from, *from);
        file.write_all_at(&bytes, *from).unwrap();
    }
    path
}

/// Returns the ranges with data of the file at `path`.
fn data(path: &Path) -> Vec<Range<u64>> {
    let file = fs::File::open(path).unwrap();
    let len = file.metadata().unwrap().len();
    DataRanges::of(&file, len).list(1000).unwrap()
}

fn allocated(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// File systems count the blocks that map a file. A file written in more pieces has more of them than its source.
const INDEX: u64 = 16 << 10;

/// Bytes in the ranges with data.
fn bytes(path: &Path) -> Vec<Vec<u8>> {
    let file = fs::File::open(path).unwrap();
    let read = |part: Range<u64>| {
        let mut bytes = vec![0; (part.end - part.start) as usize];
        file.read_exact_at(&mut bytes, part.start).unwrap();
        bytes
    };
    data(path).into_iter().map(read).collect()
}

fn moved(outcome: &Outcome) -> u64 {
    let events = outcome.events();
    let summary: &Value = events
        .iter()
        .find(|event| event["type"] == "summary")
        .unwrap();
    summary["bytes_moved"].as_u64().unwrap()
}

/// Asserts that the two files are the same, holes included.
fn assert_same(one: &Path, other: &Path) {
    let (old, new) = (fs::metadata(one).unwrap(), fs::metadata(other).unwrap());
    assert_eq!((old.len(), old.mtime()), (new.len(), new.mtime()));
    assert_eq!(data(one), data(other));
    assert!(bytes(one) == bytes(other), "{}", one.display());
    assert!(
        allocated(other) <= allocated(one) + INDEX,
        "{}: {} where the source takes {}",
        one.display(),
        allocated(other),
        allocated(one)
    );
}

/// Some file systems have reported new data as holes. strace(1) makes all of a file look like a
/// hole.
#[test]
fn bytes_in_reported_holes_are_sent_with_a_strong_digest_or_verify_disk() {
    if lacks_tool("bytes_in_reported_holes_are_sent", "strace") {
        return;
    }
    let far = Far::start("holes-reported", &[]);
    let file = holey(&far.near, "x", 1 << 20, &[(64 << 10, 128 << 10)]);
    for options in [&["--verify=disk"][..], &["--digest", "blake3"]] {
        let copy = far.copy(options, &[file.to_str().unwrap(), &far.place("x")]);
        let mut traced = Command::new("strace");
        traced.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=lseek"]);
        traced.args(["-e", "inject=lseek:error=ENXIO"]);
        traced.arg(copy.get_program()).args(copy.get_args());
        let set = copy.get_envs();
        traced.envs(set.filter_map(|(name, value)| Some((name, value?))));
        far.near.run(traced).assert_succeeded();
        let bytes = fs::read(far.target.join("x")).unwrap();
        assert!(bytes == fs::read(&file).unwrap(), "{options:?}");
        fs::remove_file(far.target.join("x")).unwrap();
    }
}

#[test]
fn only_the_data_of_sparse_files_is_sent() {
    let far = Far::start("holes", &[]);
    let (gib, kib) = (1 << 30, 1 << 10);
    let spread: Vec<_> = (0..16)
        .map(|nth| nth * 600 * (1 << 20))
        .map(|from| (from, from + 64 * kib))
        .collect();
    let large = holey(&far.near, "large", 10 * gib, &spread);
    assert!(allocated(&large) <= 1 << 21);
    let outcome = far.push(&["--json"], &[&large], "x").assert_succeeded();
    assert_eq!(moved(&outcome), 1 << 20);
    assert_same(&large, &far.target.join("x"));
    let back = far.near.at("back");
    let outcome = far.pull(&["--json"], &["x"], back.to_str().unwrap());
    assert_eq!(moved(&outcome.assert_succeeded()), 1 << 20);
    assert_same(&large, &back);
    let outcome = far.push(&["--json"], &[&large], "x").assert_succeeded();
    assert_eq!(moved(&outcome), 0);
}

/// Name of a file, its bytes, and its ranges with data.
type Shape = (&'static str, u64, &'static [(u64, u64)]);

#[test]
fn sparse_files_of_any_layout_arrive_unchanged() {
    let far = Far::start("holes-shapes", &[]);
    let folder = far.near.folder("folder");
    let shapes: [Shape; 7] = [
        ("nothing", 5 << 20, &[]),
        ("nothing-small", 70_001, &[]),
        ("front", 3 << 20, &[(0, 8192)]),
        ("end", (3 << 20) + 7, &[((3 << 20) - 8192, (3 << 20) + 7)]),
        ("middle", 100_000, &[(40_960, 45_056)]),
        ("two", 40 << 20, &[(0, 9 << 20), (20 << 20, 29 << 20)]),
        (
            "many",
            300 << 12,
            &[(0, 4096), (3 << 12, 4 << 12), (9 << 12, 20 << 12)],
        ),
    ];
    for (name, len, parts) in shapes {
        let name = format!("folder/{name}");
        holey(&far.near, &name, len, parts);
    }
    let back = far.near.folder("back");
    far.push(&[], &[&folder], "copy").assert_succeeded();
    far.pull(&["--digest", "blake3"], &["copy/"], back.to_str().unwrap())
        .assert_succeeded();
    for (name, ..) in shapes {
        assert_same(&folder.join(name), &far.target.join("copy").join(name));
        assert_same(&folder.join(name), &back.join(name));
        assert!(look(&folder.join(name)) == look(&back.join(name)), "{name}");
    }
    assert_eq!(far.names(), ["copy"]);
    assert_eq!(names(&back).len(), shapes.len());
}

#[test]
fn sparse_option_turns_zeros_into_holes() {
    let far = Far::start("holes-made", &[]);
    let file = far.near.at("dense");
    let mut dense = vec![0; 12 << 20];
    dense[5 << 20..(5 << 20) + 100_000].copy_from_slice(&noise(100_000, 3));
    for len in [50_000, 900_000, 12 << 20] {
        fs::write(&file, &dense[..len]).unwrap();
        far.push(&["--sparse"], &[&file], "x").assert_succeeded();
        assert!(look(&far.target.join("x")) == look(&file), "{len}");
        assert!(allocated(&far.target.join("x")) <= 128 << 10, "{len}");
        assert!(allocated(&file) >= len as u64);
    }
    far.push(&[], &[&file], "y").assert_succeeded();
    assert!(allocated(&far.target.join("y")) >= 12 << 20);
}

#[test]
fn sparse_file_resumes() {
    let far = Far::start("holes-resume", &[]);
    let parts = [(0, 20 << 20), (100 << 20, 120 << 20)];
    let file = holey(&far.near, "x", 200 << 20, &parts);
    let place = far.place("x");
    let slowly = ["--json", "--rate", "40Mb/s"];
    let mut copy = Running::start(far.copy(&slowly, &[file.to_str().unwrap(), &place]));
    copy.prints("\"type\":\"progress\"");
    becomes_true("two objects are proved", || {
        let journal = |name: &String| name.ends_with(".journal");
        let journal = far.names().into_iter().find(journal);
        journal.is_some_and(|name| {
            fs::metadata(far.target.join(name)).is_ok_and(|meta| meta.len() >= 40 + 2 * 22)
        })
    });
    copy.kill();
    let outcome = far.push(&["--json"], &[&file], "x").assert_succeeded();
    assert!(moved(&outcome) <= 32 << 20, "{outcome:?}");
    assert_same(&file, &far.target.join("x"));
    assert_eq!(far.names(), ["x"]);
}
