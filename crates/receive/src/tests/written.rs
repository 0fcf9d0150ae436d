//! Tests of received files that another process replaces or changes before they are published.
//!
//! The version of a file (inode, size, times) is noted after the last write. A file with another
//! inode must be rejected. With other times, the publisher must compare the bytes again, and reject
//! the file only if they differ.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use lighthaul_files::manifest::Entry;
use lighthaul_files::options::Options;
use lighthaul_session::error::Code;

use super::bench::set_mode;
use super::checked_list::file;
use super::stage::{Stage, object, whole};

#[test]
fn temporary_file_that_was_replaced_is_not_published() {
    for replaced in [false, true] {
        let stage = Stage::new("replaced", Options::default());
        let file = stage.expect_resumable(0, "a", "x");
        stage.note_version(&file);
        if let Some(version) = file.fill().version.as_mut() {
            version.inode.1 += u64::from(replaced);
        }
        stage.run(whole(&file, "x")).unwrap();
        if replaced {
            let why = stage.failure().why;
            assert!(
                why.contains("another process has replaced the file"),
                "{why}"
            );
            assert!(!stage.bench.target("a").exists());
        } else {
            assert_eq!(stage.names(), ["a"]);
        }
    }
}

/// Name of a change, the change, and true if the file is published all the same.
type Change<'a> = (&'a str, &'a dyn Fn(&Path), bool);

/// Bytes that another process writes after the digest was taken are found, even if the modification
/// time was set back. New metadata alone are no fault.
#[test]
fn temporary_file_that_was_changed_is_not_published() {
    let open = |path: &Path| File::options().write(true).open(path).unwrap();
    let append = |path: &Path| {
        let len = fs::metadata(path).unwrap().len();
        open(path).write_all_at(b"more", len).unwrap();
    };
    let cut = |path: &Path| open(path).set_len(2).unwrap();
    let overwrite = |path: &Path| open(path).write_all_at(b"C", 2).unwrap();
    let rewrite = |path: &Path| fs::write(path, "abc").unwrap();
    let change_mode = |path: &Path| set_mode(path, 0o600);
    let changes: [Change<'_>; 5] = [
        ("appended", &append, false),
        ("truncated", &cut, false),
        ("overwritten", &overwrite, false),
        ("rewritten", &rewrite, true),
        ("another mode", &change_mode, true),
    ];
    for inplace in [false, true] {
        for (what, change, is_right) in changes {
            let options = Options {
                inplace,
                ..Options::default()
            };
            let stage = Stage::new("changed", options);
            let file = stage.expect_resumable(0, "a", "abc");
            stage.note_version(&file);
            let path = stage.bench.target("").join(&file.temporary);
            let time = fs::metadata(&path).unwrap().modified().unwrap();
            change(&path);
            open(&path).set_modified(time).unwrap();
            stage.run(whole(&file, "abc")).unwrap();
            if is_right {
                assert_eq!(stage.names(), ["a"], "{what}");
                continue;
            }
            let why = stage.failure().why;
            let expected = "another process has changed the file";
            assert!(why.contains(expected), "{what}: {why}");
            assert_eq!(stage.names().is_empty(), !inplace, "{what}");
        }
    }
}

/// The digests of all parts together cover the file.
#[test]
fn file_of_several_parts_that_was_rewritten_with_the_same_bytes_is_published() {
    let stage = Stage::new("parts", Options::default());
    let file = stage.expect_resumable(0, "a", "abc");
    stage.note_version(&file);
    fs::write(stage.bench.target("").join(&file.temporary), "abc").unwrap();
    let parts = [(&file, (0, 2)), (&file, (2, 3))];
    let jobs = object(0, &parts, &["ab", "c"], &["ab", "c"]);
    stage.run(jobs).unwrap();
    assert_eq!(stage.names(), ["a"]);
}

/// A range of which the sender has no data must stay a hole.
#[test]
fn hole_that_was_filled_is_not_published() {
    for filled in [false, true] {
        let stage = Stage::new("filled", Options::default());
        let holes = Entry {
            data: Some(vec![(0, 3)]),
            ..file("a", 9000)
        };
        let file = stage.pend(0, holes, "abc", false);
        let path = stage.bench.target("").join(&file.temporary);
        let open = File::options().write(true).open(path).unwrap();
        open.set_len(9000).unwrap();
        stage.note_version(&file);
        open.write_all_at(if filled { b"x" } else { b"\0" }, 8000)
            .unwrap();
        stage.run(whole(&file, "abc")).unwrap();
        assert_eq!(stage.bench.target("a").exists(), !filled);
    }
}

/// With `--verify=disk` a hole must be read as zeros from the disk.
#[test]
fn hole_with_other_bytes_on_the_disk_is_not_published() {
    for filled in [false, true] {
        let options = Options {
            verify_disk: true,
            ..Options::default()
        };
        let stage = Stage::new("disk-hole", options);
        let holes = Entry {
            data: Some(vec![(0, 3)]),
            ..file("a", 9000)
        };
        let file = stage.pend(0, holes, "abc", false);
        let path = stage.bench.target("").join(&file.temporary);
        let open = File::options().write(true).open(path).unwrap();
        open.set_len(9000).unwrap();
        if filled {
            open.write_all_at(b"x", 8000).unwrap();
        }
        stage.run(whole(&file, "abc")).unwrap();
        if !filled {
            assert_eq!(stage.names(), ["a"]);
            continue;
        }
        assert!(stage.names().is_empty());
        let failure = stage.failure();
        assert_eq!(failure.code, Code::Integrity as u8);
        let why = &failure.why;
        assert!(why.contains("in the range from 3 to 9000"), "{why}");
    }
}
