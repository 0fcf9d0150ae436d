//! Files that are compared by digests (`--checksum`), some of which the source cannot read.

use std::fs;

use lighthaul_files::options::Options;

use super::bench::{Bench, age, octets, set_mode};
use super::checked_list::{CONTENTS, file};

fn compared() -> Options {
    Options {
        checksum: true,
        ..Options::default()
    }
}

/// Size and time prove nothing about a file that the user wants to compare by digest.
#[test]
fn file_that_the_source_cannot_read_is_not_reported_as_unchanged() {
    for checksum in [false, true] {
        let (bench, _user) = Bench::ordinary("unread-digest");
        bench.put("a", octets(100, 1));
        bench.put("b", octets(100, 2));
        bench.leave("a", octets(100, 3));
        for path in [bench.source("a"), bench.target("a")] {
            age(&path);
        }
        set_mode(&bench.source("a"), 0);
        let options = Options {
            checksum,
            ..Options::default()
        };
        let failed = bench.copy(&options).failed();
        let paths: Vec<_> = failed.iter().map(|failed| failed.path.clone()).collect();
        let expected: &[&[u8]] = if checksum { &[b"a"] } else { &[] };
        assert_eq!(paths, expected);
        assert_eq!(bench.read("b"), octets(100, 2));
    }
}

#[test]
fn file_without_digest_is_requested() {
    let bench = Bench::new("no-digest");
    bench.leave("a", "abc");
    age(&bench.target("a"));
    set_mode(&bench.target("a"), 0o640);
    let list = [file("a", 3)];
    assert_eq!(bench.check_list(CONTENTS, &list, &compared()).wants(), [0]);
}

#[test]
fn file_without_digest_is_not_linked_to_another_directory() {
    let bench = Bench::new("no-digest-link");
    let other = bench.top.join("other");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("a"), "abc").unwrap();
    age(&other.join("a"));
    set_mode(&other.join("a"), 0o640);
    let list = [file("a", 3)];
    for (checksum, wants) in [(false, &[][..]), (true, &[0])] {
        let options = Options {
            checksum,
            link_dest: vec![b"../other".to_vec()],
            ..Options::default()
        };
        assert_eq!(bench.check_list(CONTENTS, &list, &options).wants(), wants);
        fs::remove_file(bench.target("a")).ok();
    }
}
