//! Tests of the publisher, which renames received files or rejects them.
//!
//! Each test gives jobs to a publisher in a `Stage`: objects that arrived, reports of the sender,
//! held and copied ranges. A file gets its name only if all its bytes are compared. What remains in
//! the target after a failure must be usable for a later run, or be removed.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use lighthaul_copy::report::Report;
use lighthaul_files::backups::Backups;
use lighthaul_files::manifest::Entry;
use lighthaul_files::object::Span;
use lighthaul_files::options::{Backup, Options};
use lighthaul_files::waiting_links::Name;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::fault::PeerFault;

use super::bench::SECONDS;
use super::checked_list::{file, leave, writer};
use super::stage::{Stage, arrived, digest, expecting, noted, object, subject, synced, whole};
use crate::entry_table::Settled;
use crate::job::Job;
use crate::journal::{Journal, Record};
use crate::publish::DIGESTS_MAX;
use crate::tests::bench::slot;

/// The MD5 of "abc" (RFC 1321).
const RIGHT: &str = "md5=900150983cd24fb0d6963f7d28e17f72";
const WRONG: &str = "md5=00000000000000000000000000000000";

#[test]
fn verified_files_are_published_even_if_the_copy_fails() {
    let stage = Stage::new("proved", synced());
    let mut jobs = Vec::new();
    for number in 0..3 {
        let file = stage.expect(number, &number.to_string(), "x");
        let mut both = whole(&file, "x");
        // the report about the last file is missing
        both.truncate(if number < 2 { 2 } else { 1 });
        jobs.extend(both);
    }
    let lost = Error::from(PeerFault::reported(
        Code::Network as u8,
        "the connection was lost",
    ));
    stage.threads.fail(lost);
    stage.run(jobs).unwrap_err();
    assert_eq!(stage.names(), ["0", "1"]);
}

#[test]
fn object_is_published_after_all_its_data_and_reports() {
    for order in [[0, 1, 2], [1, 0, 2], [1, 2, 0]] {
        let stage = Stage::new("order", Options::default());
        let files = [stage.expect(0, "a", "x"), stage.expect(1, "b", "yy")];
        let pieces = [(&files[0], (0, 1)), (&files[1], (0, 2))];
        let mut parts = [
            Some(Job::Arrived(arrived(7, &pieces, &["x", "yy"]))),
            Some(Job::Reports(7, vec![Report::Digest(digest("x"))])),
            Some(Job::Reports(7, vec![Report::Digest(digest("yy"))])),
        ];
        let jobs = order.map(|part: usize| parts[part].take().unwrap());
        stage.run(jobs.into()).unwrap();
        assert_eq!(stage.names(), ["a", "b"]);
        let counts = stage.table.counts();
        assert_eq!((counts.entries, counts.bytes), (2, 3));
    }
}

#[test]
fn missing_or_additional_reports_end_the_copy() {
    let stage = Stage::new("left-out", Options::default());
    let file = stage.expect(0, "a", "x");
    let mut jobs = whole(&file, "x");
    jobs.pop();
    let error = stage.run(jobs).unwrap_err();
    assert_eq!((error.code(), stage.names().len()), (Code::Protocol, 0));

    let stage = Stage::new("no-file", Options::default());
    stage.expect(0, "a", "x");
    let error = stage.run(Vec::new()).unwrap_err();
    assert_eq!((error.code(), stage.names().len()), (Code::Protocol, 0));

    let stage = Stage::new("too-much", Options::default());
    let file = stage.expect(0, "a", "x");
    let jobs = object(0, &[(&file, (0, 1))], &["x"], &["x", "x"]);
    let error = stage.run(jobs).unwrap_err();
    assert_eq!((error.code(), stage.names().len()), (Code::Protocol, 0));
}

/// Different data is not published, and is removed unless it was written in place.
#[test]
fn data_that_differ_from_the_source_are_not_published() {
    for inplace in [false, true] {
        let options = Options {
            inplace,
            ..Options::default()
        };
        let stage = Stage::new("differs", options);
        let file = stage.expect_resumable(0, "a", "x");
        stage.bench.leave("b", "mine");
        let jobs = object(0, &[(&file, (0, 1))], &["x"], &["y"]);
        stage.run(jobs).unwrap();
        let failure = stage.failure();
        assert_eq!((failure.number, failure.code), (0, Code::Integrity as u8));
        let (names, outcome): (&[&str], _) = if inplace {
            (
                &["a", "b"],
                "the file at the target is damaged; copy it again",
            )
        } else {
            (&["b"], "nothing was published; copy it again")
        };
        assert_eq!(stage.names(), names);
        assert!(failure.why.ends_with(outcome), "{}", failure.why);
        assert!(file.fill().failed);
    }
}

#[test]
fn file_that_the_sender_cannot_read_does_not_affect_other_files() {
    let stage = Stage::new("unread", Options::default());
    let files = [stage.expect(0, "a", "x"), stage.expect(1, "b", "y")];
    let pieces = [(&files[0], (0, 1)), (&files[1], (0, 1))];
    let reports = vec![
        Report::Failed {
            code: Code::Changed as u8,
            why: "it changed".into(),
        },
        Report::Digest(digest("y")),
    ];
    let arrived = arrived(0, &pieces, &["x", "y"]);
    let jobs = vec![Job::Arrived(arrived), Job::Reports(0, reports)];
    stage.run(jobs).unwrap();
    let failure = stage.failure();
    assert_eq!((failure.number, failure.code), (0, Code::Changed as u8));
    assert_eq!(failure.why, "it changed");
    assert_eq!(stage.names(), ["b"]);
}

/// A file that cannot be written fails once, and a temporary file that this copy did not create
/// stays.
#[test]
fn file_that_cannot_be_written_fails_once() {
    let stage = Stage::new("unwritten", Options::default());
    let file = stage.expect(0, "a", "x");
    file.fill().created = false;
    file.fill().failed = true;
    let error = Error::from(PeerFault::reported(Code::Open as u8, "cannot create it"));
    let mut arrived = arrived(0, &[(&file, (0, 1))], &["x"]);
    arrived.digests[0] = None;
    let jobs = vec![
        Job::Arrived(arrived),
        Job::Failed(0, error),
        Job::Reports(0, vec![Report::Digest(digest("x"))]),
    ];
    stage.run(jobs).unwrap();
    assert_eq!(stage.failure().why, "cannot create it");
    assert_eq!(stage.names().len(), 1);
}

/// A file is published when all of it is compared, in any order, and its parts are recorded in the
/// journal.
#[test]
fn incomplete_file_is_not_published() {
    for (part, rest) in [((5, 10), (0, 5)), ((0, 5), (5, 10))] {
        let stage = Stage::new("part", Options::default());
        let file = stage.expect_resumable(0, "a", "0123456789");
        let jobs = object(0, &[(&file, part)], &["x"], &["x"]);
        stage.run(jobs).unwrap_err();
        assert!(!stage.bench.target("a").exists());
        let noted = noted(&stage, &file);
        let protection = stage.settings.protection();
        assert_eq!(
            noted,
            [Record {
                span: part,
                protection
            }]
        );
        assert_eq!(stage.names().len(), 2, "it stays, with its journal");

        let jobs = object(1, &[(&file, rest)], &["x"], &["x"]);
        stage.run(jobs).unwrap();
        assert_eq!(stage.names(), ["a"]);
    }
}

/// A later run need not receive a range that was copied from the old version. A held range is in the journal already.
#[test]
fn copied_range_of_an_incomplete_file_is_recorded() {
    for is_copied in [true, false] {
        let stage = Stage::new("copied", Options::default());
        let file = stage.expect_resumable(0, "a", "0123456789");
        let there = Arc::clone(&file);
        let job = if is_copied {
            Job::Copied(there, vec![(0, 2), (4, 6)], digest("x"))
        } else {
            Job::Kept(there, (0, 4), digest("x"))
        };
        stage.run(vec![job]).unwrap_err();
        let spans: Vec<Span> = noted(&stage, &file)
            .iter()
            .map(|record| record.span)
            .collect();
        let recorded: &[Span] = if is_copied { &[(0, 2), (4, 6)] } else { &[] };
        assert_eq!(spans, recorded);
    }
}

#[test]
fn equal_held_range_completes_a_file() {
    let stage = Stage::new("kept", Options::default());
    let file = stage.expect(0, "a", "0123456789");
    let mut jobs = object(0, &[(&file, (0, 4))], &["x"], &["x"]);
    jobs.push(Job::Kept(Arc::clone(&file), (4, 9), digest("x")));
    stage.run(jobs).unwrap_err();
    assert!(!stage.bench.target("a").exists());
    let stage = Stage::new("kept-all", Options::default());
    let file = stage.expect(0, "a", "0123456789");
    let mut jobs = object(0, &[(&file, (0, 4))], &["x"], &["x"]);
    jobs.push(Job::Kept(Arc::clone(&file), (4, 10), digest("x")));
    stage.run(jobs).unwrap();
    assert_eq!(stage.names(), ["a"]);
}

/// A check for changes reads the file again, as far as its digests are known. Their number is bounded.
#[test]
fn kept_digests_of_a_file_are_bounded() {
    let stage = Stage::new("digests", Options::default());
    let count = DIGESTS_MAX + 1;
    let file = stage.expect(0, "a", &"x".repeat(count));
    let kept = (0..count as u64).map(|at| {
        let span = (at, at + 1);
        Job::Kept(Arc::clone(&file), span, digest("x"))
    });
    stage.run(kept.collect()).unwrap();
    assert_eq!(stage.names(), ["a"]);
    assert_eq!(file.fill().digests.len(), DIGESTS_MAX);
}

/// A file that was written in place has replaced the old content long before.
#[test]
fn replaced_file_gets_a_backup() {
    for (inplace, backup) in [(false, "old"), (true, "older")] {
        let options = Options {
            inplace,
            ..Options::default()
        };
        let stage = Stage::new("backups", options);
        stage.bench.leave("a", "old");
        stage.bench.leave("a~", "older");
        let place = Backup {
            folder: None,
            suffix: b"~".to_vec(),
        };
        let access = Arc::new(FileAccess::anywhere());
        let target = stage.bench.target("");
        let backups = Backups::new(&place, (&access, &target, Path::new("")), writer());
        stage.table.backups.set(backups).unwrap();
        let file = stage.expect(0, "a", "new");
        stage.run(whole(&file, "new")).unwrap();
        assert_eq!(stage.names(), ["a", "a~"]);
        assert_eq!(stage.bench.read("a"), b"new");
        assert_eq!(stage.bench.read("a~"), backup.as_bytes());
    }
}

#[test]
fn file_is_published_only_with_the_expected_hash() {
    for (asked, is_right) in [(RIGHT, true), ("adler32,md5", true), (WRONG, false)] {
        let stage = Stage::new("expected-hash", expecting(asked));
        let file = stage.expect_resumable(0, "a", "abc");
        stage.table.set_expected(&file.entry);
        stage.run(whole(&file, "abc")).unwrap();
        if is_right {
            assert_eq!(stage.names(), ["a"]);
            continue;
        }
        assert!(stage.names().is_empty());
        let failure = stage.failure();
        assert_eq!(failure.code, Code::Integrity as u8);
        assert!(failure.why.contains("cannot publish"), "{}", failure.why);
    }
}

/// An existing file is compared, too, and the copy fails if it differs.
#[test]
fn existing_file_is_compared_with_the_expected_hash() {
    for (asked, is_right) in [(RIGHT, true), ("md5", true), (WRONG, false)] {
        let stage = Stage::new("unchanged", expecting(asked));
        stage.bench.leave("a", "abc");
        let entry = file("a", 3);
        if asked != "md5" {
            stage.table.set_expected(&entry);
        }
        stage.table.settle(0, &entry, Ok(Settled::Before));
        let result = stage.run(Vec::new());
        assert_eq!(result.is_ok(), is_right, "{result:?}");
        let Err(error) = result else { continue };
        assert_eq!(error.code(), Code::Integrity);
        assert!(error.text().contains("differs from the expected file"));
    }
}

/// With `--verify=disk` the bytes on the disk are compared, not those that arrived.
#[test]
fn file_with_other_bytes_on_the_disk_is_not_published() {
    for on_disk in ["abc", "abd"] {
        let options = Options {
            verify_disk: true,
            ..Options::default()
        };
        let stage = Stage::new("disk", options);
        let file = stage.expect(0, "a", on_disk);
        stage.run(whole(&file, "abc")).unwrap();
        if on_disk == "abc" {
            assert_eq!(stage.names(), ["a"]);
            continue;
        }
        assert!(stage.names().is_empty());
        let failure = stage.failure();
        assert_eq!(failure.code, Code::Integrity as u8);
        let why = &failure.why;
        assert!(
            why.ends_with("nothing was published; copy it again"),
            "{why}"
        );
    }
}

/// After an interrupted check, a later run can resume the file.
#[test]
fn interrupted_check_keeps_the_file_for_a_later_run() {
    let disk = Options {
        verify_disk: true,
        ..Options::default()
    };
    for options in [expecting(RIGHT), disk] {
        let stage = Stage::new("interrupted", options);
        let file = stage.expect_resumable(0, "a", "abc");
        let jobs = whole(&file, "abc");
        stage.threads.fail(Error::from(PeerFault::reported(
            Code::Interrupted as u8,
            "stop",
        )));
        stage.run(jobs).unwrap_err();
        assert!(stage.table.take_settled().1.is_empty());
        assert!(!stage.bench.target("a").exists());
        assert_eq!(noted(&stage, &file)[0].span, (0, 3));
        assert_eq!(stage.names().len(), 2);
    }
}

/// Files to sync are opened first: few of them one by one, and more as a file system.
#[test]
fn file_that_cannot_be_synced_ends_the_copy() {
    for (options, count, ends) in [
        (Options::default(), 1, false),
        (synced(), 1, true),
        (synced(), 8, true),
        (synced(), 9, false),
    ] {
        let stage = Stage::new("sync", options);
        let mut jobs = Vec::new();
        for number in 0..count {
            let file = stage.expect(number, &number.to_string(), "x");
            jobs.extend(whole(&file, "x"));
            if number == 0 {
                fs::remove_file(stage.bench.target("").join(&file.temporary)).unwrap();
            }
        }
        let result = stage.run(jobs);
        assert_eq!(result.is_err(), ends, "{count}");
        if let Err(error) = result {
            assert!(error.text().contains("cannot sync"), "{}", error.text());
            assert!(stage.names().is_empty());
        } else {
            let why = stage.failure().why;
            assert!(why.contains("cannot publish"), "{why}");
            assert_eq!(stage.names().len() as u64, count - 1);
        }
    }
}

/// A failed file is not opened again to be synced.
#[test]
fn failed_file_needs_no_sync() {
    let stage = Stage::new("sync-failed", synced());
    let files = [stage.expect(0, "a", "xy"), stage.expect(1, "b", "z")];
    let mut jobs = object(0, &[(&files[0], (0, 1))], &["x"], &["x"]);
    jobs.extend(object(1, &[(&files[0], (1, 2))], &["y"], &["Y"]));
    jobs.extend(object(2, &[(&files[1], (0, 1))], &["z"], &["z"]));
    stage.run(jobs).unwrap();
    assert_eq!(stage.failure().number, 0);
    assert_eq!(stage.names(), ["b"]);
}

#[test]
fn published_file_has_the_metadata_of_the_source() {
    let stage = Stage::new("with_extras", Options::default());
    let with_extras = Entry {
        extras: Some(Box::default()),
        ..file("b", 1)
    };
    let files = [
        stage.expect(0, "a", "x"),
        stage.pend(1, with_extras, "x", false),
    ];
    let mut jobs = whole(&files[0], "x");
    jobs.extend(whole(&files[1], "x"));
    stage.run(jobs).unwrap();
    for path in ["a", "b"] {
        assert_eq!(stage.bench.look(path), (0o640, SECONDS, 5), "{path}");
    }
}

/// Hard links are created after their file, and fail with it.
#[test]
fn hard_links_follow_their_file() {
    for is_right in [true, false] {
        let stage = Stage::new("names", Options::default());
        let first = stage.expect(0, "a", "x");
        stage.table.begin_links(0, &first.entry, 2);
        for (number, path) in [(1, "b"), (2, "c")] {
            let name = Name {
                number,
                entry: file(path, 1),
                temporary: format!("{path}.part").into(),
            };
            assert!(stage.table.link(0, name));
        }
        stage.bench.leave("b", "old");
        let theirs = if is_right { "x" } else { "y" };
        stage
            .run(object(0, &[(&first, (0, 1))], &["x"], &[theirs]))
            .unwrap();
        let (settled, failures) = stage.table.take_settled();
        assert_eq!(settled, 3);
        let counts = stage.table.counts();
        if is_right {
            assert_eq!(stage.names(), ["a", "b", "c"]);
            let inode = |path| fs::metadata(stage.bench.target(path)).unwrap().ino();
            assert!(inode("a") == inode("b") && inode("a") == inode("c"));
            assert_eq!((counts.entries, counts.unchanged), (3, 0));
        } else {
            assert_eq!(stage.names(), ["b"], "the existing file stays");
            let codes: Vec<_> = failures.iter().map(|failure| failure.code).collect();
            assert_eq!(codes, [Code::Integrity as u8; 3]);
            let why = &failures[1].why;
            assert!(why.contains("a hard link to a file that failed"), "{why}");
        }
    }
    // an existing hard link stays
    let stage = Stage::new("name-there", Options::default());
    stage.bench.leave("a", "x");
    fs::hard_link(stage.bench.target("a"), stage.bench.target("b")).unwrap();
    let first = file("a", 1);
    stage.table.begin_links(0, &first, 1);
    let name = Name {
        number: 1,
        entry: file("b", 1),
        temporary: "b.part".into(),
    };
    stage.table.link(0, name);
    stage.table.settle(0, &first, Ok(Settled::Before));
    stage.run(Vec::new()).unwrap();
    assert_eq!(stage.table.counts().unchanged, 2);
    assert_eq!(stage.names(), ["a", "b"]);
}

/// Directories get their metadata after all their contents, and the target directory last, without
/// leftovers of the copy.
#[test]
fn folders_have_the_metadata_of_the_source_at_the_end() {
    let mut stage = Stage::new(
        "folders",
        Options {
            partial_dir: Some(b".parts".to_vec()),
            sync: true,
            ..Options::default()
        },
    );
    stage.lock = true;
    let file = stage.expect(1, "sub/a", "x");
    let with_extras = Entry {
        extras: Some(Box::default()),
        ..leave("with_extras")
    };
    fs::create_dir(stage.bench.target("with_extras")).unwrap();
    fs::create_dir(stage.bench.target(".parts")).unwrap();
    stage.table.list(4).unwrap();
    stage.table.end_folder(2, leave("sub"));
    stage.table.end_folder(3, with_extras);
    stage.table.end_folder(4, leave(""));
    stage.run(whole(&file, "x")).unwrap();
    assert_eq!(stage.names(), ["sub", "with_extras"]);
    assert_eq!(stage.bench.names("sub"), ["a"]);
    for path in ["sub", "with_extras", ""] {
        assert_eq!(stage.bench.look(path), (0o750, SECONDS, 5), "{path}");
    }
    assert!(stage.table.is_settled());
    assert_eq!(
        stage.table.counts().entries,
        1,
        "directories are counted at their begin"
    );
}

/// A directory whose mode and time cannot be set fails.
#[test]
fn folder_that_cannot_be_changed_fails() {
    let stage = Stage::new("no-folder", Options::default());
    stage.table.end_folder(0, leave("gone"));
    stage.run(Vec::new()).unwrap();
    let failure = stage.failure();
    assert_eq!(
        (failure.code, failure.path),
        (Code::Io as u8, b"gone".to_vec())
    );
    assert!(failure.why.contains("cannot set mode and time of"));
}

/// Unpublished files are removed, except those that a later run can resume, and those of other
/// processes.
#[test]
fn clean_removes_files_that_no_later_run_can_use() {
    // resumable, created by this copy, compared bytes of ten, held by an earlier run; then whether
    // it stays
    for (nth, (resumable, created, proved, is_held, stays)) in [
        (true, true, 4, false, true),
        (true, true, 0, false, false),
        (true, true, 0, true, true),
        (true, false, 0, true, true),
        (false, true, 4, false, false),
        // another process created the file
        (true, false, 0, false, true),
        (false, false, 0, false, true),
    ]
    .into_iter()
    .enumerate()
    {
        let options = Options {
            partial_dir: Some(b".parts".to_vec()),
            ..Options::default()
        };
        let stage = Stage::new("clean", options);
        let file = stage.pend(0, file("sub/a", 10), "0123456789", resumable);
        let journal = stage.bench.target("").join(&file.journal);
        fs::write(&journal, "").unwrap();
        let record = Record {
            span: (0, 4),
            protection: stage.settings.protection(),
        };
        {
            let mut fill = file.fill();
            fill.created = created;
            fill.uncompared_bytes -= proved;
            fill.held = is_held.then_some(record).into_iter().collect();
            let open = File::create(&journal).unwrap();
            fill.journal = Some(Journal::begin((open, slot()), subject(&file), &[]).unwrap());
        }
        stage.run(Vec::new()).unwrap_err();
        let place = stage.bench.target("").join(&file.temporary);
        assert_eq!(place.exists(), stays, "{nth}");
        let continues = resumable && (is_held || created && proved > 0);
        assert_eq!(journal.exists(), continues, "{nth}");
        assert_eq!(
            file.fill().failed,
            !continues,
            "a lane must not write it any more"
        );
        let folder = stage.bench.target("sub/.parts");
        assert_eq!(folder.exists(), stays, "{nth}");
    }
}

#[test]
fn clean_keeps_files_that_are_written_in_place() {
    let options = Options {
        inplace: true,
        ..Options::default()
    };
    let stage = Stage::new("clean-place", options);
    stage.expect(0, "a", "x");
    stage.run(Vec::new()).unwrap_err();
    assert_eq!(stage.names(), ["a"]);
}
