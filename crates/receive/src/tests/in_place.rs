//! Tests of copies with `--inplace`, to files that have several names or that are written already.
//!
//! Writing under a final name changes the content of all names of a file. At most one entry may
//! therefore write or keep it; further entries must get files of their own, unless hard links are
//! preserved.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

use lighthaul_files::digest::DigestKind;
use lighthaul_files::options::{Detail, Options};
use lighthaul_files::temp_names as names;
use lighthaul_fs::version::Look;

use super::bench::{Bench, age, octets, set_time, slot};
use super::checked_list::{CONTENTS, NOTHING, file, folder, leave};
use crate::journal::{Journal, Protection, Record, Subject};

/// Sizes of a file without and with a journal.
const LENS: [usize; 2] = [70_000, (8 << 20) + 12_345];

fn in_place() -> Options {
    Options {
        inplace: true,
        ..Options::default()
    }
}

/// Creates the files `a` and `b` of `len` different bytes at the source. At the target, both are
/// names of one file with the content `old`.
fn two_names(name: &str, len: usize, old: &[u8]) -> Bench {
    let bench = Bench::new(name);
    for (nth, path) in [(0_u32, "a"), (1, "b")] {
        bench.put(path, octets(len, nth.into()));
        set_time(&bench.source(path), 1000 + i64::from(nth));
    }
    bench.leave("a", old);
    fs::hard_link(bench.target("a"), bench.target("b")).unwrap();
    bench
}

fn assert_same(bench: &Bench, what: &str) {
    for path in ["a", "b"] {
        let source = fs::read(bench.source(path)).unwrap();
        assert!(bench.read(path) == source, "{path}: {what}");
    }
}

#[test]
fn hard_links_of_a_file_do_not_overwrite_each_other() {
    for len in LENS {
        for old in [octets(len, 7), octets(50, 7)] {
            let bench = two_names("two-names", len, &old);
            bench.copy(&in_place()).whole();
            assert_same(&bench, &format!("{len} bytes"));
            // a second copy finds both in place
            assert_eq!(bench.copy(&in_place()).whole().unchanged, 2);
        }
    }
}

/// A file that is in place keeps its content when another of its names gets a new one.
#[test]
fn unchanged_file_survives_a_rewrite_of_its_hard_link() {
    for len in LENS {
        for (nth, kept) in [(0_u32, "a"), (1, "b")] {
            let bench = two_names("kept-name", len, &octets(len, nth.into()));
            set_time(&bench.target(kept), 1000 + i64::from(nth));
            let inode = fs::metadata(bench.target(kept)).unwrap().ino();
            assert_eq!(bench.copy(&in_place()).whole().unchanged, 1);
            assert_same(&bench, kept);
            assert_eq!(fs::metadata(bench.target(kept)).unwrap().ino(), inode);
        }
    }
}

/// With `--hard-links`, names of one file at the source stay names of one file at the target.
#[test]
fn preserved_hard_links_keep_their_inode() {
    for len in LENS {
        let bench = two_names("preserved", len, &octets(len, 7));
        fs::remove_file(bench.source("b")).unwrap();
        fs::hard_link(bench.source("a"), bench.source("b")).unwrap();
        let inode = |path| fs::metadata(bench.target(path)).unwrap().ino();
        let before = inode("a");
        let options = Options {
            hard_links: true,
            ..in_place()
        };
        bench.copy(&options).whole();
        assert_same(&bench, "preserved");
        assert_eq!((inode("a"), inode("b")), (before, before));
    }
}

/// Two names of one partial file at the target belong to two files of the source: only one of them is resumed in it.
#[test]
fn second_name_of_a_partial_file_is_not_resumed() {
    const LEN: u64 = 9 << 20;
    let held = (0, 1 << 20);
    let bench = Bench::new("place-resumed-names");
    let partial = File::create(bench.target("a")).unwrap();
    partial.set_len(LEN).unwrap();
    fs::hard_link(bench.target("a"), bench.target("b")).unwrap();
    let list = ["a", "b"].map(|name| file(name, LEN));
    for entry in &list {
        let subject = Subject {
            look: Look {
                size: LEN,
                seconds: entry.seconds,
                nanos: entry.nanos,
            },
            boot: 0,
        };
        let record = Record {
            span: held,
            protection: Protection {
                digest: DigestKind::Blake3,
                sealed: true,
            },
        };
        let journal = bench.target("").join(names::journal(entry.path()));
        let journal = File::create(journal).unwrap();
        Journal::begin((journal, slot()), subject, &[record]).unwrap();
    }
    // a dry run claims nothing
    let dry = Options {
        dry_run: Some(Detail::All),
        ..in_place()
    };
    let planned = bench.check_list(CONTENTS, &list, &dry).planned;
    let kept: Vec<u64> = planned.iter().map(|planned| planned.kept).collect();
    assert_eq!(kept, [held.1; 2]);
    let wanted = bench.check_list(CONTENTS, &list, &in_place()).wanted;
    let resumed: Vec<_> = wanted.into_iter().map(|file| file.held).collect();
    assert_eq!(resumed, [vec![held], vec![]]);
    // a file with one name is resumed without a claim
    fs::remove_file(bench.target("b")).unwrap();
    let checked = bench.check_list(CONTENTS, &list[..1], &in_place());
    assert_eq!(checked.wanted[0].held, [held]);
    assert!(checked.claims.keep(inode(&bench, "a")));
}

/// Only files with several names are claimed, since the number of claims is limited.
#[test]
fn only_kept_files_with_several_names_are_claimed() {
    let bench = Bench::new("place-claims");
    for path in ["one", "two"] {
        bench.leave(path, "abc");
        age(&bench.target(path));
    }
    fs::hard_link(bench.target("two"), bench.target("other")).unwrap();
    fs::create_dir(bench.target("sub")).unwrap();
    let list = [file("one", 3), file("two", 3), folder("sub"), leave("sub")];
    let checked = bench.check_list(CONTENTS, &list, &in_place());
    assert_eq!(checked.wants(), NOTHING);
    for (path, is_claimed) in [("one", false), ("two", true), ("sub", false)] {
        let may_write = checked.claims.write(inode(&bench, path), 9);
        assert_eq!(!may_write, is_claimed, "{path}");
    }
}

/// Returns device and inode number of a file of the target.
fn inode(bench: &Bench, path: &str) -> (u64, u64) {
    let there = fs::metadata(bench.target(path)).unwrap();
    (there.dev(), there.ino())
}
