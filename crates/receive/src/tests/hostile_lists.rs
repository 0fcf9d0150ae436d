//! Lists of a peer that lists entries which were not requested, or that lead elsewhere at the target.

use std::fs;
use std::os::unix::fs::symlink;

use lighthaul_files::filter::{FilterOption, Rules};
use lighthaul_files::manifest::{Entry, EntryKind};
use lighthaul_files::options::Options;
use lighthaul_session::error::Code;

use super::bench::Bench;
use super::checked_list::{CONTENTS, entry, file, folder, leave};
use super::entry_checker::deleting;

/// Returns the mode of a new directory or file.
fn with_mode(entry: Entry, mode: u32) -> Entry {
    Entry { mode, ..entry }
}

#[test]
fn only_requested_files_are_written() {
    let mut bench = Bench::new("requested");
    bench.requested = Some(vec![b"/data/report".to_vec()]);
    let named = ("target/", true);
    for list in [
        &[folder(".ssh"), file(".ssh/authorized_keys", 0)][..],
        &[file("report", 0), file("other", 0)],
    ] {
        let checked = bench.check_list(named, list, &Options::default());
        assert_eq!(checked.result.unwrap_err().code(), Code::Protocol);
        assert!(!bench.target(".ssh").exists() && !bench.target("other").exists());
    }
    let listed = bench.check_list(CONTENTS, &[file("report", 0)], &Options::default());
    assert_eq!(listed.result.unwrap_err().code(), Code::Protocol);
    let listed = bench.check_list(named, &[file("report", 3)], &Options::default());
    assert_eq!(listed.wants(), [0]);
}

#[test]
fn contents_of_an_excluded_directory_are_not_deleted() {
    let options = Options {
        rules: Rules::parse(&[FilterOption::Exclude(b"precious".to_vec())]).unwrap(),
        ..deleting()
    };
    for list in [
        &[folder("precious"), leave("precious")][..],
        &[leave("precious")],
        &[file("precious/mine", 0)],
    ] {
        let bench = Bench::new("precious");
        bench.leave("precious/mine", "x");
        let checked = bench.check_list(CONTENTS, list, &options);
        assert_eq!(checked.result.unwrap_err().code(), Code::Protocol);
        assert_eq!(bench.read("precious/mine"), b"x");
    }
}

#[test]
fn link_that_takes_the_place_of_a_listed_directory_is_not_followed() {
    let bench = Bench::new("link-end");
    bench.leave("precious/mine", "x");
    let mode = bench.look("precious").0;
    let list = [
        folder("precious"),
        file("precious/mine", 1),
        folder("x"),
        entry("x", EntryKind::Link(b"precious".to_vec())),
        file("x/new", 0),
        with_mode(leave("x"), 0o40_777),
    ];
    let checked = bench.check_list(CONTENTS, &list, &deleting());
    assert_eq!(checked.result, Ok(()));
    let failed: Vec<_> = checked
        .failures
        .iter()
        .map(|failed| &*failed.path)
        .collect();
    assert_eq!(failed, [&b"x/new"[..], b"x"]);
    assert_eq!(bench.names("precious"), ["mine"]);
    assert_eq!(bench.read("precious/mine"), b"x");
    assert_eq!(bench.look("precious").0, mode);
}

/// A list of paths may name entries of several directories in any order.
#[test]
fn contents_of_each_refused_directory_are_skipped() {
    let bench = Bench::new("refused");
    for (link, folder) in [("a", "c"), ("b", "d")] {
        fs::create_dir(bench.target(folder)).unwrap();
        symlink(folder, bench.target(link)).unwrap();
    }
    let list = [
        folder("a"),
        file("a/x", 0),
        folder("b"),
        file("b/y", 0),
        file("a/z", 0),
        leave("b"),
        leave("a"),
        file("e", 0),
    ];
    let listed = Options {
        listed: true,
        ..Options::default()
    };
    let checked = bench.check_list(CONTENTS, &list, &listed);
    let failed: Vec<_> = checked
        .failures
        .iter()
        .map(|failed| &*failed.path)
        .collect();
    assert_eq!(failed, [b"a", b"b"]);
    for folder in ["c", "d"] {
        assert!(bench.names(folder).is_empty());
    }
    assert_eq!(bench.names(""), ["a", "b", "c", "d", "e"]);
}

/// A file with rights for all may be in a private directory, also after a copy that did not end.
#[test]
fn new_directory_is_never_more_open_than_at_the_source() {
    let bench = Bench::new("private");
    let list = [
        with_mode(folder("private"), 0o40_700),
        with_mode(folder("private/locked"), 0o40_500),
        with_mode(folder("shared"), 0o40_750),
        with_mode(file("private/a", 0), 0o100_644),
    ];
    let checked = bench.check_list(("target/new/", false), &list, &Options::default());
    assert_eq!(checked.result, Ok(()));
    let mode = |path: &str| bench.look(path).0;
    assert_eq!(mode("new"), 0o700, "the source directory may be private");
    assert_eq!(mode("new/private"), 0o700);
    assert_eq!(mode("new/private/locked"), 0o700);
    assert_eq!(mode("new/shared") & 0o27, 0);
}
