//! Striped copies: files that parts stage, and what the part that publishes compares again.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use lighthaul_files::digest::Digest;
use lighthaul_files::manifest::{Entry, EntryKind, version_mark};
use lighthaul_files::naming::Naming;
use lighthaul_files::object::Span;
use lighthaul_files::options::{DeltaMode, Options, Striped, StripedPart};
use lighthaul_files::stage_log::{
    LogOwner, RangeState, StageLog, StagedRange, create, without_device,
};
use lighthaul_fs::disk::Root;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_fs::version::Look;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_io::host::wait::pause;
use lighthaul_session::error::Code;

use super::bench::Bench;
use super::checked_list::CONTENTS;

const RUN: [u8; 16] = [7; 16];
const SIZE: u64 = 300_000;

fn part(run: [u8; 16], part: StripedPart) -> Options {
    Options {
        striped: Some(Striped { run, part }),
        delta: DeltaMode::Never,
        ..Options::default()
    }
}

fn staging(run: [u8; 16]) -> Options {
    let naming = Naming::Contents;
    let is_whole = true;
    part(run, StripedPart::Stage { naming, is_whole })
}

fn publishing(run: [u8; 16]) -> Options {
    part(run, StripedPart::Publish { naming: None })
}

/// Stages the file `a`.
fn staged(name: &str) -> Bench {
    let bench = Bench::new(name);
    bench.put("a", vec![5; SIZE as usize]);
    grow_old(&bench);
    let outcome = bench.copy(&staging(RUN));
    outcome.sender.unwrap();
    outcome.receiver.unwrap();
    assert!(!bench.target("a").exists(), "the part publishes nothing");
    bench
}

/// Waits until a further change of the file `a` would have another time.
fn grow_old(bench: &Bench) {
    let file = FileAccess::anywhere().file(&bench.source("a")).unwrap();
    let changed = file.version().unwrap().changed.unsigned_abs();
    while unix_nanos() <= changed + 2_000_000_000 {
        pause(Duration::from_millis(50));
    }
}

/// Returns the entry of the file `a`, as the source lists it.
fn listed(bench: &Bench) -> Entry {
    let file = FileAccess::anywhere().file(&bench.source("a")).unwrap();
    let version = file.version().unwrap();
    Entry {
        kind: EntryKind::File(version.look.size),
        mode: 0o100_640,
        seconds: version.look.seconds,
        nanos: version.look.nanos,
        mark: Some(version_mark(&version)),
        ..Entry::bare(b"a".to_vec())
    }
}

/// Returns the path of the staged file.
fn staged_file(bench: &Bench) -> PathBuf {
    let mut names = bench.names("");
    names.retain(|name| !name.to_string_lossy().ends_with(".stage"));
    let [name] = names.as_slice() else {
        panic!("{names:?}");
    };
    bench.target("").join(name)
}

/// Returns what the part that publishes compares with the source, or none if it believes the logs.
fn compared(bench: &Bench, entry: Entry, run: [u8; 16]) -> Option<Vec<Span>> {
    let mut checked = bench.check_list(CONTENTS, &[entry], &publishing(run));
    assert_eq!(checked.result, Ok(()));
    let wanted = checked.wanted.pop()?;
    let none = Some(Vec::new());
    assert_eq!(
        wanted.send, none,
        "nothing is sent again before it is compared"
    );
    Some(wanted.held)
}

#[test]
fn ranges_of_this_run_are_not_compared_again() {
    let bench = staged("striped-proven");
    assert_eq!(compared(&bench, listed(&bench), RUN), None);
    grow_old(&bench);
    let outcome = bench.copy(&publishing(RUN));
    assert_eq!(outcome.sender.unwrap().motion.done, 0, "nothing is sent");
    outcome.receiver.unwrap();
    assert_eq!(bench.names(""), ["a"]);
    assert_eq!(bench.read("a"), fs::read(bench.source("a")).unwrap());
}

#[test]
fn ranges_that_may_differ_from_the_source_are_compared() {
    let whole = Some(vec![(0, SIZE)]);
    let bench = staged("striped-compared");
    let entry = listed(&bench);
    assert_eq!(compared(&bench, entry.clone(), [8; 16]), whole, "other run");
    let unmarked = Entry {
        mark: None,
        ..entry.clone()
    };
    assert_eq!(compared(&bench, unmarked, RUN), whole, "no mark");

    // a source that keeps its size and time
    let source = File::options().write(true).open(bench.source("a"));
    let source = source.unwrap();
    let time = source.metadata().unwrap().modified().unwrap();
    source.write_all_at(b"new", 100_000).unwrap();
    source.set_modified(time).unwrap();
    let changed = listed(&bench);
    assert_eq!(
        (changed.seconds, changed.nanos),
        (entry.seconds, entry.nanos)
    );
    assert_ne!(changed.mark, entry.mark);
    assert_eq!(compared(&bench, changed, RUN), whole, "other source");
    bench.copy(&publishing(RUN)).receiver.unwrap();
    assert_eq!(bench.read("a"), fs::read(bench.source("a")).unwrap());

    let bench = staged("striped-damaged");
    let open = File::options().write(true).open(staged_file(&bench));
    open.unwrap().write_all_at(b"damage", 1000).unwrap();
    assert_eq!(compared(&bench, listed(&bench), RUN), whole, "other bytes");
    bench.copy(&publishing(RUN)).receiver.unwrap();
    assert_eq!(bench.read("a"), fs::read(bench.source("a")).unwrap());
}

#[test]
fn range_that_another_part_began_is_compared() {
    let bench = staged("striped-begun");
    let entry = listed(&bench);
    let root = Root::open(&bench.target("")).unwrap();
    let log = StageLog::create(root, RUN).unwrap();
    let file = FileAccess::anywhere().file(&bench.source("a")).unwrap();
    let begun = StagedRange {
        path: b"a".to_vec(),
        look: file.version().unwrap().look,
        mark: entry.mark,
        span: (10, 20),
        state: RangeState::Begun,
    };
    log.append(&[begun]).unwrap();
    drop(log);
    assert_eq!(compared(&bench, entry, RUN), Some(vec![(0, SIZE)]));
}

#[test]
fn part_does_not_begin_after_the_part_that_publishes() {
    let bench = Bench::new("striped-late");
    bench.put("a", "late");
    let mut root = Root::open(&bench.target("")).unwrap();
    let publishes = true;
    let run = RUN;
    let _publisher = create(&mut root, LogOwner { run, publishes }).unwrap();
    let error = bench.copy(&staging(RUN)).receiver.unwrap_err();
    assert_eq!(error.code(), Code::Open, "{error}");
    assert_eq!(bench.names("").len(), 1, "only the log of the other part");
}

/// A part may stop before its first record, for instance because the disk is full.
#[test]
fn staged_file_without_a_complete_range_is_removed() {
    let bench = Bench::new("striped-nothing");
    bench.put("a", vec![5; SIZE as usize]);
    let entry = bench.check_list(CONTENTS, &[listed(&bench)], &staging(RUN));
    assert_eq!(entry.wanted.len(), 1);
    drop(entry);
    let names = bench.names("");
    assert_eq!(names.len(), 1, "a log: {names:?}");
    let look = FileAccess::anywhere().file(&bench.source("a")).unwrap();
    let look = look.version().unwrap().look;
    let left = lighthaul_files::temp_names::staged("a".as_ref(), look);
    fs::write(bench.target("").join(left), "begun").unwrap();
    fs::remove_file(bench.source("a")).unwrap();
    bench.copy(&publishing(RUN)).receiver.unwrap();
    assert_eq!(bench.names(""), Vec::<&str>::new());
}

/// The file may have been removed and created again between two records, with zeros where nothing was written.
#[test]
fn ranges_of_a_file_that_was_replaced_are_compared() {
    let bench = staged("striped-replaced");
    let staged = staged_file(&bench);
    let bytes = fs::read(&staged).unwrap();
    fs::write(bench.target("kept"), "an inode number for another file").unwrap();
    fs::rename(&staged, bench.target("kept")).unwrap();
    fs::write(&staged, bytes).unwrap();
    let entry = listed(&bench);
    let root = Root::open(&bench.target("")).unwrap();
    let version = FileAccess::anywhere().file(&staged).unwrap();
    let log = StageLog::create(root, RUN).unwrap();
    let written = StagedRange {
        path: b"a".to_vec(),
        look: Look {
            size: SIZE,
            seconds: entry.seconds,
            nanos: entry.nanos,
        },
        mark: entry.mark,
        span: (0, 10),
        state: RangeState::Written {
            version: without_device(version.version().unwrap()),
            digest: Digest::Crc128(0, 0),
            sealed: true,
        },
    };
    log.append(&[written]).unwrap();
    drop(log);
    assert_eq!(compared(&bench, entry, RUN), Some(vec![(0, SIZE)]));
}

#[test]
fn part_waits_for_parts_of_another_copy() {
    let bench = Bench::new("striped-other");
    bench.put("a", "one");
    let mut root = Root::open(&bench.target("")).unwrap();
    let (run, publishes) = ([9; 16], false);
    let other = create(&mut root, LogOwner { run, publishes }).unwrap();
    let (sent, ended) = channel();
    thread::scope(|scope| {
        let bench = &bench;
        scope.spawn(move || sent.send(bench.copy(&staging(RUN)).receiver.map(drop)));
        let early = ended.recv_timeout(Duration::from_millis(500));
        assert!(early.is_err(), "{early:?}");
        drop(other);
        let result = ended.recv_timeout(Duration::from_mins(1)).unwrap();
        assert!(result.is_ok(), "{result:?}");
    });
}
