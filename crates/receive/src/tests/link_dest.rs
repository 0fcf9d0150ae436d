//! Tests of hard links to unchanged files of other directories (`--link-dest`).
//!
//! A new file becomes a link to the file of the first directory that has it unchanged: with equal
//! size, time, mode and attributes, and with an equal digest if there is one. Existing files and
//! files with an expected hash are copied instead.

use std::fs;
use std::os::unix::fs::MetadataExt;

use lighthaul_copy::watch::CopyEvent;
use lighthaul_files::content_sum::ContentSum;
use lighthaul_files::hash::HashRequest;
use lighthaul_files::manifest::{Entry, EntryKind, Linked};
use lighthaul_files::options::{Action, Options};
use lighthaul_fs::metadata::{Extras, Keep};
use lighthaul_session::error::Code;

use super::bench::{Bench, SECONDS, age, make_fifo, set_mode, set_time};
use super::checked_list::{CONTENTS, NOTHING, entry, file, folder, leave};
use super::dry_run::dry;

/// Returns options with these other directories, relative to the target.
fn linking(folders: &[&str]) -> Options {
    Options {
        link_dest: folders
            .iter()
            .map(|path| path.as_bytes().to_vec())
            .collect(),
        ..Options::default()
    }
}

/// Writes a file of another directory, with the mode and time of listed files.
fn refer(bench: &Bench, path: &str, bytes: &str) {
    let path = bench.top.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    set_mode(&path, 0o640);
    age(&path);
}

/// Reports whether both paths below the bench are the same file.
fn are_same(bench: &Bench, one: &str, other: &str) -> bool {
    let inode = |path| fs::symlink_metadata(bench.top.join(path)).map(|there| there.ino());
    inode(one).is_ok_and(|one| inode(other).is_ok_and(|other| one == other))
}

#[test]
fn unchanged_file_becomes_a_link_into_the_first_directory_with_that_file() {
    let bench = Bench::new("link-dest");
    refer(&bench, "one/sub/a", "ab");
    refer(&bench, "two/sub/a", "abc");
    refer(&bench, "three/sub/a", "abc");
    let list = [folder("sub"), file("sub/a", 3), file("sub/b", 3)];
    let list = [&list[..], &[leave("sub")]].concat();
    let options = linking(&["../one", "../two", "../three"]);
    let checked = bench.check_list(CONTENTS, &list, &options);
    assert_eq!(checked.wants(), [2], "no directory has the other file");
    assert!(are_same(&bench, "target/sub/a", "two/sub/a"));
    assert_eq!(bench.names("sub"), ["a"]);
}

/// Without a digest the content is not known to be the same, so the entry counts as unchanged.
#[test]
fn linked_file_is_a_second_copy_only_if_its_digest_was_compared() {
    let bench = Bench::new("link-dest-copy");
    refer(&bench, "other/a", "abc");
    refer(&bench, "other/b", "abc");
    let digested = Entry {
        digest: Some(ContentSum::Blake3(*blake3::hash(b"abc").as_bytes())),
        ..file("b", 3)
    };
    let list = [file("a", 3), digested];
    let checked = bench.check_list(CONTENTS, &list, &linking(&["../other"]));
    assert_eq!((checked.wants(), checked.settled()), (vec![], (2, 1)));
}

#[test]
fn file_that_differs_in_any_way_is_not_linked() {
    let attribute = (b"user.note".to_vec(), b"x".to_vec());
    let with_extras = |extras| Entry {
        extras: Some(Box::new(extras)),
        ..file("a", 3)
    };
    let noted = with_extras(Extras {
        xattrs: vec![attribute],
        ..Extras::default()
    });
    let digested = |bytes| Entry {
        digest: Some(ContentSum::Blake3(*blake3::hash(bytes).as_bytes())),
        ..file("a", 3)
    };
    let empty_link = Entry {
        mode: 0o120_640,
        ..entry("a", EntryKind::Link(Vec::new()))
    };
    for (what, there, seconds, mode, entry, is_linked) in [
        ("same", "abc", 0, 0o640, file("a", 3), true),
        ("size", "abcd", 0, 0o640, file("a", 3), false),
        ("time", "abc", 1, 0o640, file("a", 3), false),
        ("mode", "abc", 0, 0o600, file("a", 3), false),
        ("same digest", "abc", 0, 0o640, digested(b"abc"), true),
        ("digest", "abc", 0, 0o640, digested(b"abd"), false),
        (
            "time, same digest",
            "abc",
            1,
            0o640,
            digested(b"abc"),
            false,
        ),
        (
            "same attributes",
            "abc",
            0,
            0o640,
            with_extras(Extras::default()),
            true,
        ),
        ("attributes", "abc", 0, 0o640, noted, false),
    ] {
        let bench = Bench::new("link-dest-differs");
        refer(&bench, "other/a", there);
        set_mode(&bench.top.join("other/a"), mode);
        set_time(&bench.top.join("other/a"), SECONDS + seconds);
        let options = Options {
            keep: Keep {
                xattrs: true,
                ..Keep::default()
            },
            ..linking(&["../other"])
        };
        let checked = bench.check_list(CONTENTS, &[entry], &options);
        assert_eq!(checked.wants().is_empty(), is_linked, "{what}");
        assert_eq!(are_same(&bench, "target/a", "other/a"), is_linked, "{what}");
    }
    let bench = Bench::new("link-dest-kind");
    refer(&bench, "other/a", "");
    make_fifo(&bench.top.join("other/b"));
    set_mode(&bench.top.join("other/b"), 0o640);
    age(&bench.top.join("other/b"));
    let list = [empty_link, file("b", 0)];
    let checked = bench.check_list(CONTENTS, &list, &linking(&["../other"]));
    assert_eq!(checked.result, Ok(()));
    for path in ["a", "b"] {
        let is_linked = are_same(&bench, &format!("target/{path}"), &format!("other/{path}"));
        assert!(!is_linked, "{path}");
    }
}

#[test]
fn existing_file_and_file_with_an_expected_hash_are_not_linked() {
    for (expects, is_there) in [(true, false), (false, true)] {
        let bench = Bench::new("link-dest-there");
        refer(&bench, "other/a", "abc");
        if is_there {
            bench.leave("a", "xyz");
        }
        let mut options = linking(&["../other"]);
        if expects {
            options.hash = HashRequest::parse_list("adler32=024d0127").unwrap();
        }
        let checked = bench.check_list(CONTENTS, &[file("a", 3)], &options);
        assert_eq!(checked.wants(), [0]);
        assert!(!are_same(&bench, "target/a", "other/a"));
    }
}

#[test]
fn further_name_is_linked_to_the_first_only_if_links_are_preserved() {
    for hard_links in [false, true] {
        let bench = Bench::new("link-dest-names");
        refer(&bench, "other/first", "abc");
        refer(&bench, "other/second", "abc");
        let with = |linked, path| Entry {
            linked,
            ..file(path, 3)
        };
        let list = [
            with(Linked::First(1), "first"),
            with(Linked::To(0), "second"),
        ];
        let options = Options {
            hard_links,
            ..linking(&["../other"])
        };
        let checked = bench.check_list(CONTENTS, &list, &options);
        assert_eq!(checked.wants(), NOTHING);
        assert!(are_same(&bench, "target/first", "other/first"));
        let is_linked = are_same(&bench, "target/second", "other/second");
        assert_eq!(is_linked, !hard_links);
        let follows = checked.table.take_ready_link();
        assert_eq!(follows.is_some(), hard_links);
    }
}

#[test]
fn dry_run_reports_files_that_would_be_linked() {
    let bench = Bench::new("link-dest-dry");
    refer(&bench, "other/a", "abc");
    let options = Options {
        link_dest: linking(&["../other"]).link_dest,
        ..dry()
    };
    let list = [file("a", 3), file("b", 3)];
    let checked = bench.check_list(CONTENTS, &list, &options);
    let actions: Vec<_> = checked.planned.iter().map(|entry| entry.action).collect();
    assert_eq!(actions, [Action::Link, Action::Create]);
    assert!(bench.names("").is_empty());
}

#[test]
fn missing_directory_is_reported_and_files_of_an_unreadable_directory_fail() {
    let bench = Bench::new("link-dest-missing");
    refer(&bench, "other/a", "abc");
    let options = linking(&["../gone", "../other"]);
    let checked = bench.check_list(CONTENTS, &[file("a", 3)], &options);
    assert_eq!(checked.wants(), NOTHING);
    assert!(are_same(&bench, "target/a", "other/a"));
    let warned = |event: &CopyEvent| matches!(event, CopyEvent::Warning(text) if text.contains("../gone does not exist"));
    assert!(checked.events.iter().any(warned), "{:?}", checked.events);

    let options = linking(&["../other/a"]);
    let checked = bench.check_list(CONTENTS, &[file("b", 3)], &options);
    let (path, code, why) = checked.failure();
    assert_eq!((path.as_str(), code), ("b", Code::Open as u8));
    assert!(why.contains("other/a"), "{why}");
}
