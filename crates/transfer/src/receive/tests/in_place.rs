//! Copies with `--inplace` to files that have several names, or that another copy writes.

use std::fs;
use std::os::unix::fs::MetadataExt;

use lighthaul_files::options::Options;

use super::bench::{Bench, octets, set_time};

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
fn two_names_of_one_file_do_not_overwrite_each_other() {
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
fn kept_file_does_not_change_with_its_other_name() {
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
