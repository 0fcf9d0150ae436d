//! Files that are written in place, or in a separate directory until they are complete.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::far::Far;
use crate::running::{Outcome, Running, becomes_true};
use crate::scratch::{look, names, noise, tree};

/// Bytes of a file that takes some objects of 4 MiB, and about ten seconds.
const LEN: u64 = 40 << 20;

/// Starts a copy of `file` to `x` and kills it once two objects are proved by the journal in `folder`.
fn killed(far: &Far, option: &[&str], file: &Path, folder: &Path) {
    let options = [&["--json", "--rate", "40Mb/s"], option].concat();
    let mut copy = Running::start(far.copy(&options, &[file.to_str().unwrap(), &far.place("x")]));
    copy.prints("\"type\":\"progress\"");
    let journal = || {
        let mut names = names(folder).into_iter();
        names.find(|name| name.ends_with(".journal"))
    };
    becomes_true("two objects are proved", || {
        let len = |name| fs::metadata(folder.join(name)).map_or(0, |meta| meta.len());
        folder.is_dir() && journal().map_or(0, len) >= 40 + 2 * 22
    });
    copy.kill();
    becomes_true("the daemon has let go of it", || {
        let journal = fs::File::open(folder.join(journal().unwrap()));
        journal.unwrap().try_lock().is_ok()
    });
}

fn moved(outcome: &Outcome) -> u64 {
    let summary = outcome.events().pop().unwrap();
    summary["bytes_moved"].as_u64().unwrap()
}

#[test]
fn inplace_keeps_the_inode_and_resumes() {
    let far = Far::start("inplace", &[]);
    let file = far.near.file("x", LEN);
    let place = far.target.join("x");
    fs::write(&place, noise(LEN + 5, 9)).unwrap();
    fs::hard_link(&place, far.target.join("twin")).unwrap();
    let inode = fs::metadata(&place).unwrap().ino();
    killed(&far, &["--inplace"], &file, &far.target);
    assert_eq!(fs::metadata(&place).unwrap().ino(), inode);
    assert_eq!(far.names().len(), 3, "{:?}", far.names());
    let outcome = far
        .push(&["--json", "--inplace"], &[&file], "x")
        .assert_succeeded();
    assert!(moved(&outcome) < LEN - (8 << 20) + 1, "{outcome:?}");
    assert!(look(&place) == look(&file) && look(&far.target.join("twin")) == look(&file));
    assert_eq!(fs::metadata(&place).unwrap().ino(), inode);
    assert_eq!(far.names(), ["twin", "x"]);
    let again = far.push(&["--json", "--inplace"], &[&file], "x");
    assert_eq!(moved(&again.assert_succeeded()), 0);
}

/// Snapshots often share files. Two names of one file can get different content.
#[test]
fn inplace_separates_hard_links_with_different_sources() {
    let far = Far::start("inplace-shared", &[]);
    let folder = far.near.folder("folder");
    let there = far.target.join("folder");
    fs::create_dir(&there).unwrap();
    for nth in 0..40 {
        let (one, other) = (format!("a{nth}"), format!("b{nth}"));
        fs::write(folder.join(&one), noise(nth * 1000 + 9, nth)).unwrap();
        fs::write(folder.join(&other), noise(nth * 1000 + 9, nth + 100)).unwrap();
        fs::write(there.join(&one), noise(5000, 3)).unwrap();
        fs::hard_link(there.join(&one), there.join(&other)).unwrap();
    }
    far.push(&["--inplace"], &[&folder], "folder")
        .assert_succeeded();
    assert!(tree(&folder) == tree(&there));
}

#[test]
fn inplace_resume_detects_changed_ranges() {
    let far = Far::start("inplace-changed", &[]);
    let file = far.near.file("x", LEN);
    let place = far.target.join("x");
    killed(&far, &["--inplace"], &file, &far.target);
    let changed = fs::File::options().write(true).open(&place).unwrap();
    changed.write_all_at(b"another writer wrote", 1000).unwrap();
    let outcome = far
        .push(&["--json", "--inplace"], &[&file], "x")
        .assert_succeeded();
    let moved = moved(&outcome);
    assert!(moved > LEN - (36 << 20) && moved < LEN, "{outcome:?}");
    assert!(look(&place) == look(&file));
    assert_eq!(far.names(), ["x"]);
}

#[test]
fn inplace_replaces_entries_of_any_type_correctly() {
    let far = Far::start("inplace-names", &[]);
    let folder = far.near.folder("folder");
    for (name, len) in [
        ("long", 70_000),
        ("short", 3),
        ("empty", 0),
        ("link", 500),
        ("new", 9),
    ] {
        fs::write(folder.join(name), noise(len, len)).unwrap();
    }
    let there = far.target.join("folder");
    fs::create_dir(&there).unwrap();
    for name in ["long", "short", "empty", "kept"] {
        fs::write(there.join(name), noise(1000, 1)).unwrap();
    }
    std::os::unix::fs::symlink("kept", there.join("link")).unwrap();
    for options in [&["--inplace"][..], &["--inplace", "-S", "--checksum"]] {
        far.push(options, &[&folder], "folder").assert_succeeded();
        assert!(fs::read(there.join("kept")).unwrap() == noise(1000, 1));
        fs::rename(there.join("kept"), far.near.at("kept")).unwrap();
        assert!(tree(&folder) == tree(&there));
        fs::rename(far.near.at("kept"), there.join("kept")).unwrap();
    }
    // a partially written file is newer than its source
    far.push(&["--inplace", "--update"], &[&folder], "folder")
        .assert_failed_to_parse();
}

#[test]
fn partial_dir_holds_incomplete_files_and_is_removed() {
    let far = Far::start("partial-dir", &[]);
    let file = far.near.file("x", LEN);
    let options = ["--partial-dir", ".parts"];
    killed(&far, &options, &file, &far.target.join(".parts"));
    assert_eq!(far.names(), [".parts"]);
    assert_eq!(names(&far.target.join(".parts")).len(), 2);
    let outcome = far
        .push(&[&options[..], &["--json"]].concat(), &[&file], "x")
        .assert_succeeded();
    assert!(moved(&outcome) < LEN - (8 << 20) + 1, "{outcome:?}");
    assert!(look(&far.target.join("x")) == look(&file));
    assert_eq!(far.names(), ["x"]);
}

#[test]
fn partial_dir_is_neither_copied_nor_deleted() {
    let far = Far::start("partial-dir-tree", &[]);
    let folder = far.near.folder("folder");
    for inner in ["a/b", "c", ".parts"] {
        fs::create_dir_all(folder.join(inner)).unwrap();
    }
    for (name, len) in [("1", 10), ("a/2", 9 << 20), ("a/b/3", 70_000), ("c/4", 5)] {
        fs::write(folder.join(name), noise(len, len)).unwrap();
    }
    fs::write(folder.join(".parts/half"), "half").unwrap();
    let there = far.target.join("there");
    fs::create_dir_all(there.join("c/.parts")).unwrap();
    fs::write(there.join("c/.parts/of another"), "half").unwrap();
    fs::write(there.join("c/gone"), "gone").unwrap();
    let options = ["--partial-dir", ".parts", "--delete", "--yes"];
    far.push(&options, &[&folder], "there").assert_succeeded();
    let mut expected: Vec<_> = tree(&folder).into_keys().collect();
    expected.retain(|path| !path.starts_with(".parts"));
    expected.extend(["c/.parts".into(), "c/.parts/of another".into()]);
    expected.sort();
    let found: Vec<_> = tree(&there).into_keys().collect();
    assert_eq!(found, expected);
    for name in ["1", "a/2", "a/b/3", "c/4", "a", "a/b"] {
        assert!(
            look(&folder.join(name)) == look(&there.join(name)),
            "{name}"
        );
    }
    for name in ["..", "a/b"] {
        far.push(&["--partial-dir", name], &[&folder], "there")
            .assert_failed(1, "--partial-dir needs a name without slashes");
    }
}
