//! Lists of entries: entries created at once, requested files, rejected entries.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use lighthaul_files::digest::Digest;
use lighthaul_files::filter::{FilterOption, Rules};
use lighthaul_files::hash::HashRequest;
use lighthaul_files::manifest::{Entry, EntryKind, Linked};
use lighthaul_files::options::Options;
use lighthaul_io::fs::metadata::{Extras, Keep};
use lighthaul_session::error::Code;

use super::bench::{Bench, SECONDS, age, look, make_fifo, set_mode, set_time};
use super::dry_run::dry;
use super::judged::{CONTENTS, NOTHING, entry, file, folder, leave, writer};
use crate::message::{Listing, Wanted};
use crate::receive::Permit;
use crate::receive::claim::Claim;
use crate::watch::Sight;

fn deleting() -> Options {
    Options {
        delete: true,
        ..Options::default()
    }
}

fn sparse() -> Options {
    Options {
        sparse: true,
        ..Options::default()
    }
}

#[test]
fn malformed_list_is_rejected() {
    let bench = Bench::new("nonsense");
    let pages = [
        vec![Listing::End],
        vec![
            Listing::Begin { named: false },
            Listing::Begin { named: false },
        ],
        vec![
            Listing::Begin { named: false },
            Listing::Wanted(Wanted {
                entries: 0,
                files: Vec::new(),
            }),
        ],
        vec![Listing::Begin { named: false }, Listing::Which],
        vec![
            Listing::Begin { named: false },
            Listing::Entries(vec![0xff; 9]),
        ],
    ];
    for list in pages {
        let judged = bench.hear("target/", &list, &Options::default());
        assert_eq!(judged.result.unwrap_err().code, Code::Protocol);
    }
    // only a copy of contents has an entry for the target folder
    let top = [leave("")];
    let named = bench.judge(("target/", true), &top, &Options::default());
    assert_eq!(named.result.unwrap_err().code, Code::Protocol);
    assert_eq!(
        bench.judge(CONTENTS, &top, &Options::default()).wants(),
        NOTHING
    );
    let inner = [folder("a"), leave("a")];
    assert_eq!(
        bench
            .judge(("target/", true), &inner, &Options::default())
            .wants(),
        NOTHING
    );
}

/// The target folder gets the metadata of the source if the copy creates it, or if owners are
/// preserved.
#[test]
fn target_folder_gets_the_metadata_of_the_source_only_if_it_is_new() {
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
        let mut claim = None;
        if there {
            fs::create_dir(&target).unwrap();
            if begun {
                let root = lighthaul_io::fs::disk::Root::open(&target).unwrap();
                claim = Claim::stake(root, &writer(), true);
            }
            set_mode(&target, 0o555);
        }
        let judged = bench.judge(CONTENTS, &[leave("")], options);
        assert_eq!(judged.wants(), NOTHING, "{case}");
        assert_eq!(judged.made, Some(made), "{case}");
        assert_eq!(judged.ledger.take_left().is_some(), left, "{case}");
        let is_open = look(&target).0 & 0o700 == 0o700;
        assert_eq!(is_open, opened, "{case}");
        assert_eq!(judged.settled().1, 0);
        set_mode(&target, 0o755);
        drop(claim);
    }
    let (bench, _ordinary) = Bench::ordinary("top-named");
    let named = bench.judge(("new/", true), &[file("a", 1)], &Options::default());
    assert_eq!(named.made, Some(false));
    set_mode(&bench.target(""), 0o555);
    bench.judge(("target/", true), &[file("a", 1)], &owner);
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
    let judged = bench.judge(("target/other", true), &list, &options);
    assert_eq!(judged.wants(), [1]);
    assert_eq!(bench.names("other"), ["a", "kept"]);
}

/// Entries in a folder that cannot be created are skipped; other entries are not.
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
    let judged = bench.judge(CONTENTS, &list, &deleting());
    let (path, code, why) = judged.failure();
    assert_eq!((path.as_str(), code), ("a", Code::Open as u8), "{why}");
    assert_eq!(judged.wanted.len(), 1);
    assert_eq!(judged.wanted[0].number, 8);
    let left = || judged.ledger.take_left().map(|(number, _)| number);
    assert_eq!(
        [left(), left()],
        [Some(7), None],
        "the end of the other folder waits for the file"
    );
    // items that only the target has are deleted at the end of the list, even if entries were
    // skipped
    assert_eq!(bench.names(""), ["a", "ad", "c"]);
}

#[test]
fn failed_file_does_not_affect_others() {
    let bench = Bench::new("not-barred");
    bench.leave("a/in", "x");
    let list = [file("a", 1), file("b", 1)];
    let judged = bench.judge(CONTENTS, &list, &Options::default());
    let (path, code, why) = judged.failure();
    assert_eq!((path.as_str(), code), ("a", Code::Open as u8), "{why}");
    assert_eq!(judged.wanted[0].number, 1);
}

/// Skipping ends with the end of the folder that could not be created.
#[test]
fn list_continues_after_a_folder_that_cannot_be_created() {
    let bench = Bench::new("behind");
    bench.leave("a", "x");
    let list = [folder("a"), leave("a"), file("a.txt", 1)];
    let judged = bench.judge(CONTENTS, &list, &Options::default());
    assert_eq!(judged.failure().0, "a");
    assert_eq!(judged.wanted[0].number, 2);
    assert!(
        judged.ledger.take_left().is_none(),
        "the folder does not exist"
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
    let dressed = Entry {
        extras: Some(Box::default()),
        ..file("dressed", 0)
    };
    let list = [
        file("new", 0),
        file("there", 0),
        holes,
        dressed,
        entry("link", EntryKind::Link(b"nowhere".to_vec())),
        entry("other", EntryKind::Link(b"new".to_vec())),
    ];
    let judged = bench.judge(CONTENTS, &list, &Options::default());
    assert_eq!(judged.wants(), NOTHING);
    assert_eq!(judged.settled(), (6, 0));
    let names = ["dressed", "holes", "link", "new", "other", "there"];
    assert_eq!(bench.names(""), names);
    for (path, len) in [("new", 0), ("there", 0), ("holes", 70_000), ("dressed", 0)] {
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
    let again = bench.judge(CONTENTS, &list, &Options::default());
    assert_eq!((again.wants(), again.settled()), (vec![], (6, 6)));
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
    let judged = bench.judge(CONTENTS, &list, &Options::default());
    assert_eq!((judged.wants(), judged.settled()), (vec![], (1, 1)));
    assert_eq!(changed(), before, "nothing had to be changed");

    set_mode(&path, 0o600);
    bench.judge(CONTENTS, &list, &Options::default());
    assert_eq!(bench.look("a"), (0o640, SECONDS, 5));

    set_time(&path, SECONDS + 9);
    let digested = Entry {
        digest: Some(Digest::Blake3(*blake3::hash(b"abc").as_bytes())),
        ..file("a", 3)
    };
    let judged = bench.judge(CONTENTS, &[digested], &Options::default());
    assert_eq!(judged.wants(), NOTHING);
    assert_eq!(bench.look("a"), (0o640, SECONDS, 5));

    // with more metadata to preserve, another function does the same
    set_mode(&path, 0o600);
    let dressed = Entry {
        extras: Some(Box::default()),
        ..file("a", 3)
    };
    bench.judge(
        CONTENTS,
        std::slice::from_ref(&dressed),
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
        ..dressed
    };
    let keep = Keep {
        xattrs: true,
        ..Keep::default()
    };
    let options = Options {
        keep,
        ..Options::default()
    };
    bench.judge(CONTENTS, &[noted], &options);
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
        let judged = bench.judge(CONTENTS, &list, options);
        let case = format!("{newer} {}", options.update);
        let kept = spared || newer == 0;
        assert_eq!(judged.wants().is_empty(), kept, "{case}");
        let mode = if spared || newer == 1 { 0o600 } else { 0o640 };
        assert_eq!(bench.look("first").0, mode, "{case}");
        let link = judged.ledger.take_link();
        assert_eq!(link.is_some(), !spared && newer == 0, "{case}");
        if spared {
            assert_eq!(judged.settled(), (2, 2));
        }
    }
}

/// Hard links wait for their first name if they are preserved, and are separate files otherwise.
#[test]
fn hard_links_are_requested_only_if_they_are_not_preserved() {
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
    let judged = bench.judge(CONTENTS, &list, &Options::default());
    assert_eq!(judged.wants(), [0, 1, 2]);
    let linking = Options {
        hard_links: true,
        ..Options::default()
    };
    let judged = bench.judge(CONTENTS, &list, &linking);
    assert_eq!(
        judged.wants(),
        [0, 2],
        "the first name of the last link is unknown"
    );
    let first = &list[0];
    judged
        .ledger
        .settle(0, first, Ok(crate::receive::ledger::Settled::Now));
    let (name, place) = judged.ledger.take_link().unwrap();
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
        let judged = bench.judge(CONTENTS, &[file("a", 0)], &options);
        let there = fs::symlink_metadata(bench.target("a")).unwrap();
        assert_eq!(there.file_type().is_fifo(), !(asked && allowed));
        if asked && allowed {
            assert_eq!(judged.wants(), NOTHING);
            continue;
        }
        let (path, code, why) = judged.failure();
        assert_eq!((path.as_str(), code), ("a", Code::Open as u8));
        assert!(
            why.contains("cannot replace") && why.contains("is a FIFO"),
            "{why}"
        );
        assert_eq!(why.contains("--replace-special"), allowed, "{why}");
    }
}

#[test]
fn path_whose_metadata_cannot_be_read_fails_alone() {
    let bench = Bench::new("look");
    bench.leave("f", "x");
    let long = "n".repeat(256);
    let judged = bench.judge(
        CONTENTS,
        &[file(&long, 1), file("b", 1)],
        &Options::default(),
    );
    let (_, code, why) = judged.failure();
    assert_eq!(code, Code::Open as u8);
    assert!(why.contains("too long"), "{why}");
    assert_eq!(judged.wanted.len(), 1);
    // a path through a file is another fault than a missing file
    let judged = bench.judge(CONTENTS, &[file("f/x", 0)], &Options::default());
    let (_, code, why) = judged.failure();
    assert_eq!(code, Code::Open as u8);
    assert!(why.contains("cannot read the metadata"), "{why}");
    // a missing folder above is no separate fault: the file cannot be created
    let judged = bench.judge(CONTENTS, &[file("g/x", 0)], &Options::default());
    let why = judged.failure().2;
    assert!(why.contains("cannot create"), "{why}");
}

#[test]
fn file_larger_than_any_disk_is_rejected() {
    let bench = Bench::new("huge");
    let most = i64::MAX as u64;
    let list = [file("a", most + 1), file("b", most)];
    let judged = bench.judge(CONTENTS, &list, &sparse());
    let (path, _, why) = judged.failure();
    assert_eq!(path, "a");
    assert!(why.contains("no file can have"), "{why}");
    assert_eq!(judged.wanted[0].number, 1);
    // the largest possible file fits no disk, so the copy is rejected before any byte is sent
    for list in [[file("b", most)], [file("c", 1 << 50)]] {
        let judged = bench.judge(CONTENTS, &list, &Options::default());
        assert_eq!(judged.result.unwrap_err().code, Code::Io);
        assert_eq!(judged.wanted, []);
    }
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
    let judged = bench.judge(CONTENTS, &list, &options);
    assert_eq!(judged.wants(), NOTHING);
    assert_eq!(bench.look("sub").0, 0o700, "so that it can be filled");
    assert_eq!(bench.names("sub"), [elsewhere, ".parts", "mine"]);
    assert_eq!(bench.names("sub/.parts"), [elsewhere]);
    assert_eq!(
        bench.names(""),
        ["sub"],
        "the lock file of the dead writer is removed"
    );
    assert_eq!(judged.ledger.take_left().map(|(number, _)| number), Some(1));
}

/// On a target that ignores case, the second of two equal names is rejected, as it would replace
/// the first.
#[test]
fn name_that_the_target_equates_with_another_is_rejected() {
    let bench = Bench::new("folds");
    let list = [file("Readme", 0), file("readme", 0), file("other", 0)];
    let judged = bench.judge(CONTENTS, &list, &Options::default());
    assert_eq!(
        judged.wants(),
        NOTHING,
        "this file system distinguishes them"
    );
    for name in ["Readme", "readme", "other"] {
        fs::remove_file(bench.target(name)).unwrap();
    }
    // the test file for the check exists in upper case, as on a file system that ignores case
    for (number, name) in ["Readme", "readme", "other"].into_iter().enumerate() {
        let tried = writer().number(Path::new(name), number as u64);
        bench.leave(&format!(".lighthaul-{tried:016x}-A"), "");
    }
    // a dry run writes no test file
    let told = bench.judge(CONTENTS, &list, &dry());
    assert_eq!(told.wants(), NOTHING);
    let judged = bench.judge(CONTENTS, &list, &Options::default());
    let (path, code, why) = judged.failure();
    assert_eq!((path.as_str(), code), ("readme", Code::Open as u8));
    assert!(why.contains("only in case"), "{why}");
    assert_eq!(judged.settled(), (2, 0));
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
        let judged = bench.judge(CONTENTS, &[file("a", 0)], &options);
        assert_eq!(bench.target("a").exists(), made, "{asked}");
        if !made {
            let (_, code, why) = judged.failure();
            assert_eq!(code, Code::Integrity as u8);
            assert!(why.contains("cannot publish"), "{why}");
        }
        assert_eq!(judged.ledger.expected(), Path::new("a"));
    }
}

/// Warnings of the sender are shown, and nothing is deleted after it could not read an entry.
#[test]
fn warnings_of_the_sender_are_shown() {
    let bench = Bench::new("words");
    bench.leave("old", "x");
    let list = [
        Listing::Begin { named: false },
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
    let judged = bench.hear("target/", &list, &deleting());
    assert_eq!(judged.result, Ok(()));
    let warned = |text: &str| judged.sights.contains(&Sight::Warning(text.into()));
    assert!(warned("careful") && warned("skipped: a socket"));
    let failed = |sight: &Sight| matches!(sight, Sight::Failed(failed) if failed.path == b"b");
    assert!(judged.sights.iter().any(failed));
    assert_eq!(bench.names(""), ["old"]);
}
