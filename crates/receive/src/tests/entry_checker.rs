//! Tests of lists of entries: entries created at once, requested files, entries that fail.
//!
//! Each test gives a list to a receiver without data, as in `checked_list`. Only files with data
//! are requested. Most other entries are complete at once; directories wait for their contents, and
//! hard links for their file. An entry that fails must not affect the others.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use lighthaul_copy::message::Listing;
use lighthaul_copy::watch::CopyEvent;
use lighthaul_files::content_sum::ContentSum;
use lighthaul_files::filter::{FilterOption, Rules};
use lighthaul_files::hash::HashRequest;
use lighthaul_files::manifest::{Entry, EntryKind, Linked};
use lighthaul_files::naming::Naming;
use lighthaul_files::options::Options;
use lighthaul_files::permit::Permit;
use lighthaul_files::writer_lock::WriterLock;
use lighthaul_fs::metadata::{Extras, Keep};
use lighthaul_session::error::Code;
use rustix::fs::inotify;

use super::bench::{Bench, SECONDS, age, look, make_fifo, set_mode, set_time};
use super::checked_list::{CONTENTS, NOTHING, entry, file, folder, leave, writer};

pub(super) fn deleting() -> Options {
    Options {
        delete: true,
        ..Options::default()
    }
}

pub(super) fn sparse() -> Options {
    Options {
        sparse: true,
        ..Options::default()
    }
}

/// The target directory gets the metadata of the source if the copy creates it, or if owners are
/// preserved.
#[test]
fn only_a_new_target_folder_gets_the_metadata_of_the_source() {
    let owner = Options {
        keep: Keep {
            owner: true,
            ..Keep::default()
        },
        ..Options::default()
    };
    let listed = Options {
        listed: true,
        ..Options::default()
    };
    // inputs: whether the target existed, whether an unfinished copy created it, and the options;
    // results: whether it counts as created, whether it gets the source's mode, and whether it is
    // made writable
    for (there, begun, options, made, left, opened) in [
        (false, false, &Options::default(), true, true, true),
        (true, false, &Options::default(), false, false, false),
        (true, true, &Options::default(), true, true, true),
        (true, false, &owner, false, true, true),
        (true, false, &listed, false, false, false),
        (true, true, &listed, false, false, false),
    ] {
        let case = format!("{there} {begun} {}", options.listed);
        let (bench, _ordinary) = Bench::ordinary("top");
        let target = bench.target("");
        fs::remove_dir(&target).unwrap();
        let mut lock = None;
        if there {
            fs::create_dir(&target).unwrap();
            if begun {
                let root = lighthaul_fs::disk::Root::open(&target).unwrap();
                lock = WriterLock::acquire(root, &writer(), true);
            }
            set_mode(&target, 0o555);
        }
        let checked = bench.check_list(CONTENTS, &[leave("")], options);
        assert_eq!(checked.wants(), NOTHING, "{case}");
        assert_eq!(checked.made, Some(made), "{case}");
        assert_eq!(checked.table.take_ended_folder().is_some(), left, "{case}");
        let is_open = look(&target).0 & 0o700 == 0o700;
        assert_eq!(is_open, opened, "{case}");
        assert_eq!(checked.settled().1, 0);
        set_mode(&target, 0o755);
        drop(lock);
    }
    let (bench, _ordinary) = Bench::ordinary("top-named");
    let named = bench.check_list(("new/", true), &[file("a", 1)], &Options::default());
    assert_eq!(named.made, Some(false));
    set_mode(&bench.target(""), 0o555);
    bench.check_list(("target/", true), &[file("a", 1)], &owner);
    assert_eq!(bench.look("").0, 0o555);
    set_mode(&bench.target(""), 0o755);
}

/// A rule with a path at the source also protects files of a target with another name.
#[test]
fn rules_apply_to_paths_at_the_source() {
    let bench = Bench::new("renamed");
    let rule = FilterOption::Exclude(b"/dir/kept".to_vec());
    let options = Options {
        rules: Rules::parse(&[rule]).unwrap(),
        ..deleting()
    };
    for path in ["other/kept", "other/gone", "other/a"] {
        bench.leave(path, "x");
    }
    let list = [folder("dir"), file("dir/a", 1), leave("dir")];
    let checked = bench.check_list(("target/other", true), &list, &options);
    assert_eq!(checked.wants(), [1]);
    assert_eq!(bench.names("other"), ["a", "kept"]);
}

/// Entries in a directory that cannot be created are skipped; other entries are not.
#[test]
fn folder_that_cannot_be_created_fails_once() {
    let bench = Bench::new("barred");
    make_fifo(&bench.target("a"));
    bench.leave("old", "x");
    let list = [
        folder("a"),
        file("a/x", 1),
        folder("a/b"),
        file("a/b/y", 1),
        leave("a/b"),
        leave("a"),
        folder("ad"),
        leave("ad"),
        file("ab", 1),
        folder("c"),
        leave("c"),
    ];
    let checked = bench.check_list(CONTENTS, &list, &deleting());
    let (path, code, why) = checked.failure();
    assert_eq!((path.as_str(), code), ("a", Code::Open as u8), "{why}");
    assert_eq!(checked.wanted.len(), 1);
    assert_eq!(checked.wanted[0].number, 8);
    let left = || checked.table.take_ended_folder().map(|(number, _)| number);
    assert_eq!(
        [left(), left()],
        [Some(7), None],
        "the end of the other directory waits for the file"
    );
    // items that only the target has are deleted at the end of the list, even if entries were
    // skipped
    assert_eq!(bench.names(""), ["a", "ad", "c"]);
}

#[test]
fn failed_file_does_not_affect_other_files() {
    let bench = Bench::new("not-barred");
    bench.leave("a/in", "x");
    let list = [file("a", 1), file("b", 1)];
    let checked = bench.check_list(CONTENTS, &list, &Options::default());
    let (path, code, why) = checked.failure();
    assert_eq!((path.as_str(), code), ("a", Code::Open as u8), "{why}");
    assert_eq!(checked.wanted[0].number, 1);
}

/// Skipping ends with the end of the directory that could not be created.
#[test]
fn list_continues_after_a_folder_that_cannot_be_created() {
    let bench = Bench::new("behind");
    bench.leave("a", "x");
    let list = [folder("a"), leave("a"), file("a.txt", 1)];
    let checked = bench.check_list(CONTENTS, &list, &Options::default());
    assert_eq!(checked.failure().0, "a");
    assert_eq!(checked.wanted[0].number, 2);
    assert!(
        checked.table.take_ended_folder().is_none(),
        "the directory does not exist"
    );
}

#[test]
fn empty_entries_are_created_at_once_with_the_metadata_of_the_source() {
    let bench = Bench::new("empty");
    bench.leave("there", "longer");
    bench.leave("other", "longer");
    let holes = Entry {
        data: Some(Vec::new()),
        ..file("holes", 70_000)
    };
    let with_extras = Entry {
        extras: Some(Box::default()),
        ..file("with_extras", 0)
    };
    let list = [
        file("new", 0),
        file("there", 0),
        holes,
        with_extras,
        entry("link", EntryKind::Link(b"nowhere".to_vec())),
        entry("other", EntryKind::Link(b"new".to_vec())),
    ];
    let checked = bench.check_list(CONTENTS, &list, &Options::default());
    assert_eq!(checked.wants(), NOTHING);
    assert_eq!(checked.settled(), (6, 0));
    let names = ["holes", "link", "new", "other", "there", "with_extras"];
    assert_eq!(bench.names(""), names);
    for (path, len) in [
        ("new", 0),
        ("there", 0),
        ("holes", 70_000),
        ("with_extras", 0),
    ] {
        assert_eq!(bench.look(path), (0o640, SECONDS, 5), "{path}");
        let there = fs::metadata(bench.target(path)).unwrap();
        assert_eq!((there.len(), there.blocks()), (len, 0), "{path}");
    }
    for (path, target) in [("link", "nowhere"), ("other", "new")] {
        let link = bench.target(path);
        assert_eq!(fs::read_link(&link).unwrap(), Path::new(target));
        assert_eq!(look(&link).1, SECONDS);
    }
    // a second copy finds everything in place
    let again = bench.check_list(CONTENTS, &list, &Options::default());
    assert_eq!((again.wants(), again.settled()), (vec![], (6, 6)));
}

/// A kill between two system calls leaves no incomplete file under a final name: only a rename
/// creates one.
#[test]
fn empty_files_get_their_names_after_completion() {
    let bench = Bench::new("empty-names");
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    let flags = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
    inotify::add_watch(&watch, bench.target(""), flags).unwrap();
    let holes = Entry {
        data: Some(Vec::new()),
        ..file("holes", 70_000)
    };
    let with_extras = Entry {
        extras: Some(Box::default()),
        ..file("with_extras", 0)
    };
    let list = [file("new", 0), holes, with_extras];
    let checked = bench.check_list(CONTENTS, &list, &Options::default());
    assert_eq!(checked.settled(), (3, 0));
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&watch, &mut buffer);
    let mut renamed = Vec::new();
    while let Ok(event) = events.next() {
        let name = event.file_name().unwrap().to_str().unwrap().to_owned();
        if event.events().contains(inotify::ReadFlags::MOVED_TO) {
            renamed.push(name);
        } else {
            assert!(name.starts_with(".lighthaul-"), "{name} was created");
        }
    }
    assert_eq!(renamed, ["new", "holes", "with_extras"]);
    assert_eq!(bench.names(""), ["holes", "new", "with_extras"]);
}

/// An existing file is not touched if mode and time are right, and corrected if they are not.
#[test]
fn existing_file_gets_mode_and_time_of_the_source() {
    let bench = Bench::new("mend");
    let path = bench.target("a");
    fs::write(&path, "abc").unwrap();
    set_mode(&path, 0o640);
    age(&path);
    let changed = || {
        let there = fs::metadata(&path).unwrap();
        (there.ctime(), there.ctime_nsec())
    };
    let before = changed();
    let list = [file("a", 3)];
    let checked = bench.check_list(CONTENTS, &list, &Options::default());
    assert_eq!((checked.wants(), checked.settled()), (vec![], (1, 1)));
    assert_eq!(changed(), before, "nothing had to be changed");

    set_mode(&path, 0o600);
    bench.check_list(CONTENTS, &list, &Options::default());
    assert_eq!(bench.look("a"), (0o640, SECONDS, 5));

    set_time(&path, SECONDS + 9);
    let digested = Entry {
        digest: Some(ContentSum::Blake3(*blake3::hash(b"abc").as_bytes())),
        ..file("a", 3)
    };
    let checked = bench.check_list(CONTENTS, &[digested], &Options::default());
    assert_eq!(checked.wants(), NOTHING);
    assert_eq!(bench.look("a"), (0o640, SECONDS, 5));

    // with more metadata to preserve, another function does the same
    set_mode(&path, 0o600);
    let with_extras = Entry {
        extras: Some(Box::default()),
        ..file("a", 3)
    };
    bench.check_list(
        CONTENTS,
        std::slice::from_ref(&with_extras),
        &Options::default(),
    );
    assert_eq!(bench.look("a"), (0o640, SECONDS, 5));
    let attribute = (b"user.note".to_vec(), b"x".to_vec());
    let extras = Extras {
        xattrs: vec![attribute],
        ..Extras::default()
    };
    let noted = Entry {
        extras: Some(Box::new(extras)),
        ..with_extras
    };
    let keep = Keep {
        xattrs: true,
        ..Keep::default()
    };
    let options = Options {
        keep,
        ..Options::default()
    };
    bench.check_list(CONTENTS, &[noted], &options);
    let mut value = [0; 8];
    let read = rustix::fs::getxattr(&path, "user.note", &mut value);
    assert_eq!(read.unwrap(), 1);
}

/// With `--update` a newer file stays with its mode, and is not replaced by a hard link.
#[test]
fn newer_file_is_kept() {
    let update = Options {
        update: true,
        hard_links: true,
        ..Options::default()
    };
    for (options, newer, spared) in [
        (&update, 1, true),
        (&update, 0, false),
        (
            &Options {
                update: false,
                ..update.clone()
            },
            1,
            false,
        ),
    ] {
        let bench = Bench::new("newer");
        for path in ["first", "second"] {
            bench.leave(path, "abc");
            set_mode(&bench.target(path), 0o600);
            set_time(&bench.target(path), SECONDS + newer);
        }
        let list = [
            Entry {
                linked: Linked::First(1),
                ..file("first", 3)
            },
            Entry {
                linked: Linked::To(0),
                ..file("second", 3)
            },
        ];
        let checked = bench.check_list(CONTENTS, &list, options);
        let case = format!("{newer} {}", options.update);
        let kept = spared || newer == 0;
        assert_eq!(checked.wants().is_empty(), kept, "{case}");
        let mode = if spared || newer == 1 { 0o600 } else { 0o640 };
        assert_eq!(bench.look("first").0, mode, "{case}");
        let link = checked.table.take_ready_link();
        assert_eq!(link.is_some(), !spared && newer == 0, "{case}");
        if spared {
            assert_eq!(checked.settled(), (2, 2));
        }
    }
}

/// Hard links wait for their first name if they are preserved, and are separate files otherwise.
#[test]
fn hard_links_are_requested_as_files_unless_links_are_preserved() {
    let list = [
        Entry {
            linked: Linked::First(1),
            ..file("first", 3)
        },
        Entry {
            linked: Linked::To(0),
            ..file("second", 3)
        },
        Entry {
            linked: Linked::To(7),
            ..file("third", 3)
        },
    ];
    let bench = Bench::new("links");
    let checked = bench.check_list(CONTENTS, &list, &Options::default());
    assert_eq!(checked.wants(), [0, 1, 2]);
    let linking = Options {
        hard_links: true,
        ..Options::default()
    };
    let checked = bench.check_list(CONTENTS, &list, &linking);
    assert_eq!(
        checked.wants(),
        [0, 2],
        "the first name of the last link is unknown"
    );
    let first = &list[0];
    checked
        .table
        .settle(0, first, Ok(crate::entry_table::Settled::Now));
    let (name, place) = checked.table.take_ready_link().unwrap();
    assert_eq!((name.number, place), (1, Ok(b"first".to_vec())));
}

#[test]
fn devices_are_replaced_only_on_request_and_with_permission() {
    for (asked, allowed) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut bench = Bench::new("special");
        bench.permit = Permit {
            special: allowed,
            ..Permit::default()
        };
        make_fifo(&bench.target("a"));
        let options = Options {
            replace_special: asked,
            ..Options::default()
        };
        let checked = bench.check_list(CONTENTS, &[file("a", 0)], &options);
        let there = fs::symlink_metadata(bench.target("a")).unwrap();
        assert_eq!(there.file_type().is_fifo(), !(asked && allowed));
        if asked && allowed {
            assert_eq!(checked.wants(), NOTHING);
            continue;
        }
        let (path, code, why) = checked.failure();
        assert_eq!((path.as_str(), code), ("a", Code::Open as u8));
        assert!(
            why.contains("cannot replace") && why.contains("is a FIFO"),
            "{why}"
        );
        assert_eq!(why.contains("--replace-special"), allowed, "{why}");
    }
}

/// A directory of the target may give its group to new files. A peer that may not set such bits may not remove them.
#[test]
fn folder_keeps_its_special_bits_if_the_peer_may_not_set_special_bits() {
    for special in [false, true] {
        let mut bench = Bench::new("special-bits");
        bench.permit = Permit {
            special,
            ..Permit::default()
        };
        bench.leave("a", "abc");
        age(&bench.target("a"));
        set_mode(&bench.target("a"), 0o2640);
        fs::create_dir(bench.target("sub")).unwrap();
        set_mode(&bench.target("sub"), 0o2700);
        let list = [file("a", 3), folder("sub"), leave("sub")];
        let checked = bench.check_list(CONTENTS, &list, &Options::default());
        assert_eq!(checked.wants(), NOTHING);
        let (_, ended) = checked.table.take_ended_folder().unwrap();
        let kept = if special { 0 } else { 0o2000 };
        assert_eq!(ended.mode & 0o7777, 0o750 | kept);
        assert_eq!(bench.look("a").0, 0o640);
    }
}

#[test]
fn path_with_unreadable_metadata_does_not_affect_other_paths() {
    let bench = Bench::new("look");
    bench.leave("f", "x");
    let long = "n".repeat(256);
    let checked = bench.check_list(
        CONTENTS,
        &[file(&long, 1), file("b", 1)],
        &Options::default(),
    );
    let (_, code, why) = checked.failure();
    assert_eq!(code, Code::Open as u8);
    // not only the words of the system
    assert!(
        why.contains("too long") && !why.contains("metadata"),
        "{why}"
    );
    assert_eq!(checked.wanted.len(), 1);
    // a path through a file is another fault than a missing file
    let checked = bench.check_list(CONTENTS, &[file("f/x", 0)], &Options::default());
    let (_, code, why) = checked.failure();
    assert_eq!(code, Code::Open as u8);
    assert!(why.contains("cannot read the metadata"), "{why}");
    // a missing directory above is no separate fault: the file cannot be created
    let checked = bench.check_list(CONTENTS, &[file("g/x", 0)], &Options::default());
    let why = checked.failure().2;
    assert!(why.contains("cannot create"), "{why}");
}

#[test]
fn existing_folder_is_made_writable_and_cleaned() {
    let (bench, _ordinary) = Bench::ordinary("tidy");
    let dead = writer().temporary(Path::new("x"), 3);
    let dead = dead.to_string_lossy().into_owned();
    let parts: Vec<&str> = dead.splitn(4, '-').collect();
    let host = parts[1];
    // a dead process, one of another host, and one of another host whose lock file is not locked
    let gone = format!(".lighthaul-{host}-4294967295-1-1-1");
    let (elsewhere, claimed) = (".lighthaul-01234567-1-1-1-1", ".lighthaul-89abcdef-1-1-1-1");
    for name in [&gone, elsewhere, claimed] {
        bench.leave(&format!("sub/{name}"), "x");
        bench.leave(&format!("sub/.parts/{name}"), "x");
    }
    bench.leave(".lighthaul-89abcdef-1-1-1.lock", "");
    bench.leave("sub/mine", "x");
    set_mode(&bench.target("sub"), 0o500);
    let options = Options {
        partial_dir: Some(b".parts".to_vec()),
        ..Options::default()
    };
    let list = [folder("sub"), leave("sub")];
    let checked = bench.check_list(CONTENTS, &list, &options);
    assert_eq!(checked.wants(), NOTHING);
    assert_eq!(bench.look("sub").0, 0o700, "so that it can be filled");
    assert_eq!(bench.names("sub"), [elsewhere, ".parts", "mine"]);
    assert_eq!(bench.names("sub/.parts"), [elsewhere]);
    assert_eq!(
        bench.names(""),
        ["sub"],
        "the lock file of the dead writer is removed"
    );
    assert_eq!(
        checked.table.take_ended_folder().map(|(number, _)| number),
        Some(1)
    );
}

/// An empty file is published only if the expected hash is that of an empty file.
#[test]
fn empty_file_is_compared_with_the_expected_hash() {
    let empty = "adler32=00000001";
    for (asked, made) in [(empty, true), ("adler32=1,md5", true), ("adler32=2", false)] {
        let bench = Bench::new("expected");
        let options = Options {
            hash: HashRequest::parse_list(asked).unwrap(),
            ..Options::default()
        };
        let checked = bench.check_list(CONTENTS, &[file("a", 0)], &options);
        assert_eq!(bench.target("a").exists(), made, "{asked}");
        if !made {
            let (_, code, why) = checked.failure();
            assert_eq!(code, Code::Integrity as u8);
            assert!(why.contains("cannot publish"), "{why}");
        }
        assert_eq!(checked.table.expected(), Path::new("a"));
    }
}

/// Warnings of the sender are shown, and nothing is deleted after it could not read an entry.
#[test]
fn warnings_of_the_sender_are_shown() {
    let bench = Bench::new("words");
    bench.leave("old", "x");
    let list = [
        Listing::Begin {
            naming: Naming::Contents,
        },
        Listing::Warning {
            text: "careful".into(),
        },
        Listing::Skipped {
            why: "a socket".into(),
        },
        Listing::Unreadable {
            path: b"b".to_vec(),
            code: Code::Open as u8,
            why: "cannot open".into(),
        },
        Listing::End,
    ];
    let checked = bench.check_messages("target/", &list, &deleting());
    assert_eq!(checked.result, Ok(()));
    let warned = |text: &str| checked.events.contains(&CopyEvent::Warning(text.into()));
    assert!(warned("careful") && warned("not copied: a socket"));
    let failed =
        |event: &CopyEvent| matches!(event, CopyEvent::Failed(failed) if failed.path == b"b");
    assert!(checked.events.iter().any(failed));
    assert_eq!(bench.names(""), ["old"]);
}
