//! Tests of copies that resume a large file of an earlier run.
//!
//! `Resumed` has a source file, and creates the partial file and the journal that an earlier run
//! would have left. The bytes that a copy sends show which ranges it has trusted. Leftovers that no
//! copy of this user can have created must not be trusted.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use lighthaul_copy::message::COMPARED_MAX;
use lighthaul_copy::watch::CopyEvent;
use lighthaul_files::digest::DigestKind;
use lighthaul_files::manifest::Entry;
use lighthaul_files::object::Span;
use lighthaul_files::options::{Action, Detail, Options};
use lighthaul_files::temp_names as names;
use lighthaul_fs::version::Look;
use lighthaul_testkit::lacks_root;

use super::bench::{Bench, octets};
use super::checked_list::{CONTENTS, file};
use crate::journal::{Journal, Protection, RANGES_MAX, Record, Subject};
use crate::tests::bench::slot;

/// Size of a file that is resumed, slightly above the minimum.
const LEN: usize = (8 << 20) + 12_345;
/// Range that an earlier run has left.
const HELD: Span = (1 << 20, 6 << 20);

/// Source with one large file.
struct Resumed {
    bench: Bench,
    bytes: Vec<u8>,
    options: Options,
}

impl Resumed {
    fn new(name: &str) -> Self {
        let bench = Bench::new(name);
        let bytes = octets(LEN, 7);
        bench.put("a", &bytes);
        Self {
            bench,
            bytes,
            options: synced(),
        }
    }

    fn partial(&self) -> PathBuf {
        self.bench.target("").join(names::partial(Path::new("a")))
    }

    fn journal(&self) -> PathBuf {
        self.bench.target("").join(names::journal(Path::new("a")))
    }

    /// Returns the journal's subject of a run that syncs.
    fn subject(&self) -> Subject {
        self.subject_of("a")
    }

    fn subject_of(&self, path: &str) -> Subject {
        let source = fs::metadata(self.bench.source(path)).unwrap();
        Subject {
            look: Look {
                size: source.size(),
                seconds: source.mtime(),
                nanos: u32::try_from(source.mtime_nsec()).unwrap(),
            },
            boot: 0,
        }
    }

    /// Returns the source file as a sender lists it.
    fn entry(&self) -> Entry {
        let look = self.subject().look;
        Entry {
            seconds: look.seconds,
            nanos: look.nanos,
            ..file("a", look.size)
        }
    }

    /// Creates a partial file with `bytes`, and a journal with `spans`.
    fn left(&self, bytes: &[u8], spans: &[Span]) {
        fs::write(self.partial(), bytes).unwrap();
        self.note(spans);
    }

    fn note(&self, spans: &[Span]) {
        let protection = Protection {
            digest: DigestKind::Crc128,
            sealed: false,
        };
        self.note_as(spans, protection);
    }

    /// Creates a journal of bytes with this protection.
    fn note_as(&self, spans: &[Span], protection: Protection) {
        let records = spans.iter().map(|span| Record {
            span: *span,
            protection,
        });
        let file = File::create(self.journal()).unwrap();
        Journal::begin((file, slot()), self.subject(), &records.collect::<Vec<_>>()).unwrap();
    }

    /// Locks the journal, like a run that writes the file.
    #[expect(clippy::disallowed_methods, reason = "a test uses the real system")]
    fn hold(&self) -> File {
        let journal = File::open(self.journal()).unwrap();
        journal.try_lock().unwrap();
        journal
    }

    /// Copies, and returns the number of received bytes.
    fn copy(&self) -> u64 {
        let summary = self.bench.copy(&self.options).whole();
        assert!(self.bench.read("a") == self.bytes);
        assert_eq!(self.bench.names(""), ["a"]);
        summary.motion.total
    }
}

#[test]
fn held_ranges_are_not_sent_again() {
    let resumed = Resumed::new("held");
    resumed.left(&resumed.bytes, &[HELD]);
    assert_eq!(resumed.copy(), LEN as u64 - (HELD.1 - HELD.0));
}

/// The old version of a file can only provide bytes that the receiver lacks.
#[test]
fn delta_is_requested_only_if_bytes_are_missing() {
    let resumed = Resumed::new("basis");
    let old = LEN as u64 - 1;
    resumed.bench.leave("a", &resumed.bytes[..LEN - 1]);
    let basis = || {
        let list = [resumed.entry()];
        let checked = resumed.bench.check_list(CONTENTS, &list, &synced());
        checked.wanted[0].basis
    };
    assert_eq!(basis(), Some(old), "no byte is held");
    resumed.left(&resumed.bytes, &[HELD]);
    assert_eq!(basis(), Some(old), "some bytes are held");
    resumed.left(&resumed.bytes, &[(0, LEN as u64)]);
    assert_eq!(basis(), None, "all bytes are held");
}

#[test]
fn held_ranges_of_several_files_are_compared_with_each_file() {
    let resumed = Resumed::new("held-both");
    resumed.left(&resumed.bytes, &[HELD]);
    let other = octets(LEN, 8);
    resumed.bench.put("b", &other);
    let target = resumed.bench.target("");
    fs::write(target.join(names::partial(Path::new("b"))), &other).unwrap();
    let record = Record {
        span: HELD,
        protection: Protection {
            digest: DigestKind::Crc128,
            sealed: true,
        },
    };
    let journal = File::create(target.join(names::journal(Path::new("b")))).unwrap();
    Journal::begin((journal, slot()), resumed.subject_of("b"), &[record]).unwrap();
    let summary = resumed.bench.copy(&resumed.options).whole();
    assert_eq!(summary.motion.total, 2 * (LEN as u64 - (HELD.1 - HELD.0)));
    assert!(resumed.bench.read("a") == resumed.bytes && resumed.bench.read("b") == other);
}

/// A dry run reports what the copy would keep, and changes nothing, even while another copy writes
/// the file.
#[test]
fn dry_run_reports_bytes_of_an_earlier_copy() {
    let resumed = Resumed::new("held-dry");
    let dry = Options {
        dry_run: Some(Detail::Brief),
        ..synced()
    };
    let planned = || {
        let mut plans = Vec::new();
        let mut watcher = |event| {
            if let CopyEvent::Planned(planned) = event {
                plans.push((planned.action, planned.bytes, planned.kept));
            }
        };
        let ends = ("source/", "target/");
        let outcome = resumed.bench.watch(ends, &dry, &mut watcher);
        outcome.whole();
        plans
    };
    let (whole, held) = (LEN as u64, HELD.1 - HELD.0);
    assert_eq!(planned(), [(Action::Create, whole, 0)]);
    resumed.left(&resumed.bytes, &[HELD]);
    let journal = fs::read(resumed.journal()).unwrap();
    assert_eq!(planned(), [(Action::Create, whole - held, held)]);
    let writing = resumed.hold();
    assert_eq!(planned(), [(Action::Create, whole - held, held)]);
    drop(writing);
    assert_eq!(fs::read(resumed.journal()).unwrap(), journal);
    assert_eq!(resumed.copy(), whole - held);
    // ranges of another version of the source are not kept
    fs::remove_file(resumed.bench.target("a")).unwrap();
    resumed.left(&resumed.bytes, &[HELD]);
    super::bench::age(&resumed.bench.source("a"));
    assert_eq!(planned(), [(Action::Create, whole, 0)]);
}

/// A CRC of plain packets does not protect from forgery, so a later encrypted copy does not trust
/// its own CRC on these bytes.
#[test]
fn bytes_that_could_be_forged_are_compared_by_blake3() {
    let resumed = Resumed::new("forgeable");
    let entry = resumed.entry();
    fs::write(resumed.partial(), &resumed.bytes).unwrap();
    for (digest, sealed, compared) in [
        (DigestKind::Crc128, false, DigestKind::Blake3),
        (DigestKind::None, true, DigestKind::Blake3),
        (DigestKind::Crc128, true, DigestKind::Crc128),
        (DigestKind::Blake3, false, DigestKind::Crc128),
    ] {
        resumed.note_as(&[HELD], Protection { digest, sealed });
        let list = std::slice::from_ref(&entry);
        let checked = resumed.bench.check_list(CONTENTS, list, &synced());
        assert_eq!(checked.wants(), [0]);
        let wanted = &checked.wanted[0];
        assert_eq!(wanted.held, [HELD]);
        assert_eq!(wanted.digest, compared, "{digest:?} {sealed}");
    }
}

#[test]
fn sparse_copy_keeps_held_ranges() {
    let resumed = Resumed {
        options: sparse(),
        ..Resumed::new("held-sparse")
    };
    resumed.left(&resumed.bytes, &[HELD]);
    assert_eq!(resumed.copy(), LEN as u64 - (HELD.1 - HELD.0));
}

/// Only the compared part that differs is sent again, and its zeros replace the old bytes.
#[test]
fn altered_part_of_a_held_range_is_sent_again() {
    for (name, options) in [("altered", synced()), ("altered-sparse", sparse())] {
        let mut resumed = Resumed {
            options,
            ..Resumed::new(name)
        };
        let altered = (HELD.1 - 8192) as usize;
        resumed.bytes[altered..altered + 8192].fill(0);
        resumed.bench.put("a", &resumed.bytes);
        let mut left = resumed.bytes.clone();
        left[altered..altered + 8192].fill(1);
        resumed.left(&left, &[HELD]);
        let kept = COMPARED_MAX;
        assert_eq!(resumed.copy(), LEN as u64 - kept, "{name}");
    }
}

/// With `--sparse` zeros are not written, so old bytes must be removed where no range is held.
#[test]
fn sparse_copy_has_zeros_where_no_range_is_held() {
    let mut resumed = Resumed {
        options: sparse(),
        ..Resumed::new("gaps")
    };
    resumed.bytes[..4096].fill(0);
    resumed.bytes[LEN - 9000..].fill(0);
    resumed.bench.put("a", &resumed.bytes);
    let mut left = octets(LEN + 5000, 9);
    let held = HELD.0 as usize..HELD.1 as usize;
    left[held.clone()].copy_from_slice(&resumed.bytes[held]);
    resumed.left(&left, &[HELD]);
    assert_eq!(resumed.copy(), LEN as u64 - (HELD.1 - HELD.0));
}

/// A journal can have more ranges than a copy compares. With `--sparse`, old bytes in the others
/// must be removed, too.
#[test]
fn sparse_copy_has_zeros_in_ranges_that_are_not_compared() {
    let mut resumed = Resumed {
        options: sparse(),
        ..Resumed::new("many-ranges")
    };
    resumed.bytes.fill(0);
    resumed.bench.put("a", &resumed.bytes);
    let count = LEN as u64 / 2048;
    let spans: Vec<Span> = (0..count)
        .map(|nth| (nth * 2048, nth * 2048 + 1024))
        .collect();
    assert!(spans.len() > RANGES_MAX);
    resumed.left(&octets(LEN, 11), &spans);
    assert_eq!(resumed.copy(), LEN as u64, "no range is equal");
}

#[test]
fn range_beyond_the_partial_file_is_sent() {
    let resumed = Resumed::new("short");
    let short = &resumed.bytes[..(HELD.1 - 1) as usize];
    resumed.left(short, &[(0, 4096), HELD]);
    assert_eq!(resumed.copy(), LEN as u64 - 4096);
}

/// Leftovers that a copy cannot have created: a partial file without a journal, the reverse, or
/// files of another kind.
#[test]
fn leftovers_that_no_copy_created_are_not_resumed() {
    let whole = LEN as u64;
    let resumed = Resumed::new("leavings");
    fs::write(resumed.partial(), &resumed.bytes).unwrap();
    assert_eq!(resumed.copy(), whole, "there is no journal");

    let again = || fs::remove_file(resumed.bench.target("a")).unwrap();
    again();
    resumed.note(&[HELD]);
    assert_eq!(resumed.copy(), whole, "there is only a journal");

    again();
    resumed.left(&resumed.bytes, &[HELD]);
    let other = resumed.bench.top.join("other");
    fs::hard_link(resumed.partial(), &other).unwrap();
    assert_eq!(resumed.copy(), whole, "the file has another name");
    let there = fs::metadata(&other).unwrap();
    assert_eq!(there.nlink(), 1, "it is not the published file");

    again();
    fs::remove_file(&other).unwrap();
    fs::write(&other, &resumed.bytes).unwrap();
    std::os::unix::fs::symlink(&other, resumed.partial()).unwrap();
    resumed.note(&[HELD]);
    assert_eq!(resumed.copy(), whole, "it is a link");

    again();
    resumed.left(&resumed.bytes, &[HELD]);
    fs::rename(resumed.journal(), &other).unwrap();
    std::os::unix::fs::symlink(&other, resumed.journal()).unwrap();
    let failed = resumed.bench.copy(&resumed.options).failed();
    assert_eq!(failed.len(), 1, "the journal is a link");
}

#[test]
fn journal_of_another_owner_is_not_read() {
    if lacks_root("journal_of_another_owner_is_not_read") {
        return;
    }
    for (name, foreign) in [("owner", true), ("owner-journal", false)] {
        let resumed = Resumed::new(name);
        resumed.left(&resumed.bytes, &[HELD]);
        let path = if foreign {
            resumed.partial()
        } else {
            resumed.journal()
        };
        std::os::unix::fs::chown(path, Some(4321), None).unwrap();
        assert_eq!(resumed.copy(), LEN as u64, "{name}");
    }
}

/// With `--inplace` a file with several hard links is resumed under its final name.
#[test]
fn in_place_copy_resumes_and_keeps_the_inode() {
    let resumed = Resumed {
        options: Options {
            inplace: true,
            ..synced()
        },
        ..Resumed::new("in-place")
    };
    let (bench, target) = (&resumed.bench, resumed.bench.target("a"));
    let other = bench.top.join("other");
    let same = || {
        let (one, two) = (
            fs::metadata(&target).unwrap(),
            fs::metadata(&other).unwrap(),
        );
        assert_eq!(one.ino(), two.ino());
    };
    // longer than the source, without a journal
    bench.leave("a", octets(LEN + 70_000, 3));
    fs::hard_link(&target, &other).unwrap();
    assert_eq!(resumed.copy(), LEN as u64);
    same();

    // one range is recorded, and the rest differs from the source
    let mut left = octets(LEN + 70_000, 4);
    let held = HELD.0 as usize..HELD.1 as usize;
    left[held.clone()].copy_from_slice(&resumed.bytes[held]);
    bench.leave("a", &left);
    resumed.note(&[HELD]);
    assert_eq!(resumed.copy(), LEN as u64 - (HELD.1 - HELD.0));
    same();

    // a link is replaced by a file
    fs::remove_file(&target).unwrap();
    std::os::unix::fs::symlink(&other, &target).unwrap();
    fs::write(&other, "other").unwrap();
    assert_eq!(resumed.copy(), LEN as u64);
    assert_eq!(fs::read(&other).unwrap(), b"other");
}

/// Holes of the source are holes of the target, for any old contents.
#[test]
fn resumed_copy_with_holes_has_zeros_in_the_holes() {
    let mut resumed = Resumed::new("holes");
    let hole = (2 << 20) as usize..(4 << 20) as usize;
    resumed.bytes[hole.clone()].fill(0);
    let source = File::create(resumed.bench.source("a")).unwrap();
    source.set_len(LEN as u64).unwrap();
    source
        .write_all_at(&resumed.bytes[..hole.start], 0)
        .unwrap();
    let behind = hole.end as u64;
    source
        .write_all_at(&resumed.bytes[hole.end..], behind)
        .unwrap();
    // on a file system without holes, all bytes are sent
    let data = (LEN - hole.len()) as u64;
    let is_sparse = source.metadata().unwrap().blocks() * 512 < LEN as u64;
    let sent = resumed.copy();
    assert_eq!(sent, if is_sparse { data } else { LEN as u64 });
    fs::remove_file(resumed.bench.target("a")).unwrap();
    resumed.left(&octets(LEN, 5), &[HELD]);
    resumed.copy();
}

/// A power cut may leave the journal of a file that has its name. The next run removes it, unless another run has it.
#[test]
fn journal_of_a_complete_file_is_removed() {
    let resumed = Resumed::new("complete");
    resumed.copy();
    resumed.note(&[HELD]);
    let held = resumed.hold();
    resumed.bench.copy(&resumed.options).whole();
    assert!(resumed.journal().exists());
    drop(held);
    resumed.copy();
    assert!(!resumed.journal().exists());
    // with a partial file, it belongs to another copy
    resumed.left(&resumed.bytes, &[HELD]);
    resumed.bench.copy(&resumed.options).whole();
    assert!(resumed.journal().exists() && resumed.partial().exists());
}

/// The copy waits for a run that has locked the journal, and then resumes from it.
#[test]
fn locked_journal_is_awaited() {
    let resumed = Resumed::new("waits");
    resumed.left(&resumed.bytes, &[HELD]);
    let mut held = Some(resumed.hold());
    let mut release = |event: CopyEvent| {
        if matches!(event, CopyEvent::Warning(text) if text.contains("another copy")) {
            held = None;
        }
    };
    let places = ("source/", "target/");
    let outcome = resumed.bench.watch(places, &resumed.options, &mut release);
    let summary = outcome.whole();
    assert_eq!(summary.motion.total, LEN as u64 - (HELD.1 - HELD.0));
    assert!(resumed.bench.read("a") == resumed.bytes);
}

/// The wait ends after the timeout of a silent peer; then the whole file is requested.
#[test]
fn wait_for_a_locked_journal_is_bounded() {
    let resumed = Resumed::new("never");
    resumed.left(&resumed.bytes, &[HELD]);
    let entry = resumed.entry();
    let options = Options {
        stall: 1,
        ..synced()
    };
    let ask = || {
        let list = std::slice::from_ref(&entry);
        resumed.bench.check_list(CONTENTS, list, &options)
    };
    let held = resumed.hold();
    let checked = ask();
    assert_eq!(checked.wants(), [0]);
    let wanted = &checked.wanted[0];
    assert_eq!((&wanted.send, wanted.held.len()), (&None, 0));
    let told = |event: &&CopyEvent| matches!(event, CopyEvent::Warning(text) if text.contains("waiting up to 1 s"));
    assert_eq!(checked.events.iter().filter(told).count(), 1);
    drop(held);
    let checked = ask();
    assert_eq!(checked.wanted[0].held, [HELD]);
    let rest = vec![(0, HELD.0), (HELD.1, LEN as u64)];
    assert_eq!(checked.wanted[0].send, Some(rest));
    assert_eq!(checked.events, []);
}

/// A file below the minimum size has no journal, even if it fails.
#[test]
fn small_file_is_not_resumed() {
    let mut resumed = Resumed::new("small");
    resumed.bytes.truncate((8 << 20) - 1);
    resumed.bench.put("a", &resumed.bytes);
    resumed.left(&resumed.bytes, &[HELD]);
    resumed.bench.copy(&resumed.options).whole();
    assert!(resumed.bench.read("a") == resumed.bytes);
    assert!(resumed.partial().exists() && resumed.journal().exists());
}

fn synced() -> Options {
    Options {
        sync: true,
        ..Options::default()
    }
}

fn sparse() -> Options {
    Options {
        sparse: true,
        ..synced()
    }
}
