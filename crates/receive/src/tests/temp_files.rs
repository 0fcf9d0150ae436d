//! Tests of temporary files, and of the comparison of held ranges.
//!
//! They cover creation, space, locks, slots and errors of files under temporary and final names.
//! Held ranges must be kept only if they equal the source, and requested otherwise.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;

use lighthaul_copy::budget::Budget;
use lighthaul_copy::message::{Compared, LIST, Listing};
use lighthaul_copy::report::Report;
use lighthaul_files::digest::{DigestKind, Digester};
use lighthaul_files::manifest::Entry;
use lighthaul_fs::disk::Root;
use lighthaul_fs::meta::Meta;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::fault::PeerFault;
use lighthaul_session::topic::decode;
use rustix::fs::FileType;

use super::bench::{Bench, sessions};
use super::checked_list::file;
use crate::entry_table::PendingFile;
use crate::held::{HeldCheck, HeldRange};
use crate::job::Job;
use crate::journal::{Journal, Protection, Record, Subject};
use crate::settings::Settings;
use crate::temp_files::{Attempt, Share, TempFiles, is_resumable};
use crate::tests::bench::slot;
use crate::transfer::Transfer;

const PROTECTION: Protection = Protection {
    digest: DigestKind::Crc128,
    sealed: true,
};

pub(super) fn files(bench: &Bench, sparse: bool) -> TempFiles {
    TempFiles {
        root: Root::open(&bench.target("")).unwrap(),
        target: bench.target(""),
        boot: 0,
        sparse,
        threads: Arc::default(),
        journals: Budget::default().journals(),
        claims: Arc::default(),
    }
}

/// Returns the file `a`, written under its final or a temporary name.
pub(super) fn pending(entry: Entry, in_place: bool, resumable: bool) -> PendingFile {
    let temporary = if in_place { "a" } else { "a.part" };
    let names = (PathBuf::from(temporary), PathBuf::from("a.journal"));
    PendingFile::new(0, entry, names, resumable)
}

fn subject(file: &PendingFile) -> Subject {
    Subject {
        look: file.look(),
        boot: 0,
    }
}

#[test]
fn temporary_file_is_created_once_with_allocated_space() {
    const LEN: u64 = 2 << 20;
    let holes = Entry {
        data: Some(vec![(0, 4096)]),
        ..file("a", LEN)
    };
    for (entry, sparse, resumable, len, has_room) in [
        (file("a", LEN), false, false, LEN, true),
        (file("a", LEN), false, true, LEN, true),
        (file("a", LEN), true, false, LEN, false),
        (file("a", LEN), true, true, LEN, false),
        (holes.clone(), false, false, LEN, false),
        (holes, false, true, LEN, false),
        // the space of a small file is allocated as it is written
        (file("a", 4096), false, false, 0, false),
    ] {
        let bench = Bench::new("made");
        let mut files = files(&bench, sparse);
        let case = format!("{entry:?} {sparse} {resumable}");
        let file = pending(entry, false, resumable);
        let mut output = files.open(&file, Share::Part).unwrap().unwrap();
        assert!(file.fill().created, "{case}");
        let there = fs::metadata(bench.target("a.part")).unwrap();
        assert_eq!(there.len(), len, "{case}");
        assert_eq!(there.blocks() * 512 >= LEN, has_room, "{case}");
        let inode = (there.dev(), there.ino());
        let version = file.fill().version.unwrap();
        assert_eq!(version.inode, inode, "{case}");
        assert_eq!(file.fill().journal.is_some(), resumable, "{case}");
        output.write_at(b"there", 0).unwrap();
        let again = files.open(&file, Share::Part).unwrap().unwrap();
        let mut found = [0; 5];
        again.read_at(&mut found, 0).unwrap();
        assert_eq!(&found, b"there", "{case}");
        bench.leave("other", "other");
        fs::rename(bench.target("other"), bench.target("a.part")).unwrap();
        files.open(&file, Share::Part).unwrap_err();
        assert_eq!(bench.read("a.part"), b"other", "{case}");
        assert!(
            files.open(&file, Share::Part).unwrap().is_none(),
            "the file has failed: {case}"
        );
    }
}

/// With `--inplace` an existing file is emptied and stays the same inode; a link is replaced.
#[test]
fn in_place_file_keeps_its_inode() {
    for resumable in [false, true] {
        let bench = Bench::new("place");
        let mut files = files(&bench, false);
        bench.leave("a", "something longer");
        let before = fs::metadata(bench.target("a")).unwrap();
        let there = pending(file("a", 4), true, resumable);
        files.open(&there, Share::Part).unwrap().unwrap();
        let after = fs::metadata(bench.target("a")).unwrap();
        assert_eq!(after.ino(), before.ino());
        assert!(bench.read("a").iter().all(|octet| *octet == 0));
        let inode = (after.dev(), after.ino());
        assert!(
            files.claims.keep(inode),
            "it has one name, so none is claimed"
        );
        drop(there);

        fs::remove_file(bench.target("a")).unwrap();
        bench.leave("b", "mine");
        symlink("b", bench.target("a")).unwrap();
        let there = pending(file("a", 4), true, resumable);
        drop(files.open(&there, Share::Part).unwrap().unwrap());
        let after = fs::symlink_metadata(bench.target("a")).unwrap();
        assert!(after.is_file());
        assert_eq!(bench.read("b"), b"mine");
    }
    // under a temporary name, only a resumable file replaces an old one
    let bench = Bench::new("beside");
    let mut files = files(&bench, false);
    bench.leave("a.part", "a file of another run");
    let error = files.open(&pending(file("a", 4), false, false), Share::Part);
    assert_eq!(error.unwrap_err().code(), Code::Open);
    assert_eq!(bench.read("a.part"), b"a file of another run");
    files
        .open(&pending(file("a", 4), false, true), Share::Part)
        .unwrap();
    assert_eq!(bench.read("a.part"), [0; 4]);
}

/// A file that is written under its final name has one writer, under all of its names.
#[test]
fn in_place_file_has_one_writer_at_a_time() {
    for (resumable, share) in [
        (false, Share::Whole),
        (false, Share::Part),
        (true, Share::Part),
    ] {
        let bench = Bench::new("writers");
        bench.leave("a", "something longer");
        fs::hard_link(bench.target("a"), bench.target("b")).unwrap();
        let mut files = [(); 2].map(|()| files(&bench, false));
        let first = pending(file("a", 4), true, resumable);
        let output = files[0].open(&first, share).unwrap().unwrap();
        for name in ["a", "b"] {
            let journal = format!("{name}.journal");
            let names = (PathBuf::from(name), PathBuf::from(journal));
            let second = PendingFile::new(0, file(name, 4), names, resumable);
            let error = files[1].open(&second, share).unwrap_err();
            assert!(
                error.text().ends_with("another copy is writing it"),
                "{name} {resumable}: {error}"
            );
        }
        drop((output, first));
        let third = pending(file("a", 4), true, resumable);
        files[1].open(&third, share).unwrap().unwrap();
    }
}

/// An in-place file that is resumed is locked too, so that no program that locks it writes it meanwhile.
#[test]
fn resumed_in_place_file_has_one_writer_at_a_time() {
    let record = Record {
        span: (2, 6),
        protection: PROTECTION,
    };
    let bench = Bench::new("resumed-writers");
    bench.leave("a", "0123456789");
    let resume = |files: &mut TempFiles| {
        let there = pending(file("a", 10), true, true);
        there.expect_digests(&[record.span], DigestKind::Crc128, vec![record]);
        let journal = File::create(bench.target("a.journal")).unwrap();
        Journal::begin((journal, slot()), subject(&there), &[record]).unwrap();
        files.open(&there, Share::Part).map(drop)
    };
    let mut files = files(&bench, false);
    let other = files.root.reopen(Path::new("a")).unwrap();
    other.lock().unwrap();
    let error = resume(&mut files).unwrap_err();
    let text = error.text();
    assert!(text.ends_with("another copy is writing it"), "{text}");
    drop(other);
    resume(&mut files).unwrap();
    assert_eq!(bench.read("a"), b"0123456789");
}

/// The journal of a large file and the lock of an in-place file stay open, so that each takes a slot. Other files need
/// none.
#[test]
fn only_files_that_stay_open_take_a_slot() {
    for (in_place, resumable, share, takes_slot) in [
        (false, false, Share::Whole, false),
        (false, false, Share::Part, false),
        (true, false, Share::Whole, false),
        (true, false, Share::Part, true),
        (false, true, Share::Part, true),
        (true, true, Share::Part, true),
    ] {
        let bench = Bench::new("slots");
        let mut files = files(&bench, false);
        files.journals = Budget {
            memory: 0,
            files: 0,
        }
        .journals();
        let last = files.journals.take(&files.threads).unwrap();
        // a copy that has failed does not wait for a free slot
        files.threads.fail(Error::from(PeerFault::reported(
            Code::Interrupted as u8,
            "stop",
        )));
        let there = pending(file("a", 4), in_place, resumable);
        let opened = files.open(&there, share);
        let case = format!("{in_place} {resumable} {share:?}");
        assert_eq!(opened.is_err(), takes_slot, "{case}: {opened:?}");
        if takes_slot {
            drop((opened, last));
            let there = pending(file("a", 4), in_place, resumable);
            files.open(&there, share).unwrap().unwrap();
        }
    }
}

/// A lane may close an incomplete file for a while, without its lock.
#[test]
fn in_place_file_that_was_changed_while_closed_fails() {
    for is_changed in [false, true] {
        let bench = Bench::new("closed");
        let mut files = files(&bench, false);
        let there = pending(file("a", 4), true, false);
        let mut output = files.open(&there, Share::Whole).unwrap().unwrap();
        output.write_at(b"ab", 0).unwrap();
        there.note_version(&output).unwrap();
        drop(output);
        if is_changed {
            let other = File::options().write(true).open(bench.target("a"));
            other.unwrap().write_all_at(b"A", 0).unwrap();
        }
        let again = files.open(&there, Share::Whole);
        assert_eq!(again.is_err(), is_changed, "{again:?}");
    }
}

#[test]
fn file_without_space_is_removed() {
    for (in_place, resumable, names) in [
        (false, false, vec![]),
        (false, true, vec![]),
        (true, false, vec!["a"]),
        (true, true, vec!["a"]),
    ] {
        let bench = Bench::new("no-room");
        let mut files = files(&bench, false);
        // more than any file system has
        let there = pending(file("a", i64::MAX as u64), in_place, resumable);
        files.open(&there, Share::Part).unwrap_err();
        assert!(there.fill().failed && !there.fill().created);
        assert_eq!(bench.names(""), names);
    }
}

#[test]
fn errors_name_the_operation_and_the_file() {
    let bench = Bench::new("faults");
    let mut files = files(&bench, false);
    let there = pending(file("a", 4), false, true);
    let other = io::Error::other("the disk is broken");
    for (attempt, what, code) in [
        (Attempt::Create, "cannot create", Code::Open),
        (Attempt::Write, "cannot write", Code::Io),
        (Attempt::ReadBack, "cannot read back", Code::Io),
    ] {
        let fault = files.fault(attempt, &there, &other);
        let text = format!("{what} {}: the disk is broken", bench.target("a").display());
        assert_eq!((fault.code(), fault.text()), (code, text));
    }
    let journal = File::create(bench.target("a.journal")).unwrap();
    journal.try_lock().unwrap();
    let error = files.open(&there, Share::Part).unwrap_err();
    assert_eq!(error.code(), Code::Open);
    let text = error.text();
    assert!(text.ends_with("another copy is writing it"), "{text}");
}

/// Only a file of this user without further names may be resumed, unless it has its final name.
#[test]
fn only_private_files_are_resumed() {
    let ours = rustix::process::geteuid().as_raw();
    let meta = Meta {
        kind: FileType::RegularFile,
        size: 0,
        mode: 0o600,
        user: ours,
        group: 0,
        seconds: 0,
        nanos: 0,
        changed: 0,
        allocated: 0,
        inode: (0, 0),
        names: 1,
    };
    let foreign = Meta {
        user: ours + 1,
        ..meta
    };
    let shared = Meta { names: 2, ..meta };
    let link = Meta {
        kind: FileType::Symlink,
        ..meta
    };
    for (there, beside, in_place) in [
        (meta, true, true),
        (foreign, false, true),
        (shared, false, true),
        (link, false, false),
    ] {
        let continued = |in_place| is_resumable(&pending(file("a", 4), in_place, true), &there);
        assert_eq!((continued(false), continued(true)), (beside, in_place));
    }
}

/// Compares the range from 2 to 6 of "0123456789" with the sender's `report`. The journal contains
/// `noted`.
///
/// Returns the answer to the sender, the jobs, and the additionally requested bytes.
fn compare(
    bench: &Bench,
    noted: &[Record],
    sparse: bool,
    report: Report,
) -> (Compared, Vec<Job>, u64) {
    let record = Record {
        span: (2, 6),
        protection: PROTECTION,
    };
    let there = pending(file("a", 10), false, true);
    there.expect_digests(&[(2, 6)], DigestKind::Crc128, vec![record]);
    bench.leave("a.part", "0123456789");
    let journal = File::create(bench.target("a.journal")).unwrap();
    Journal::begin((journal, slot()), subject(&there), noted).unwrap();
    let [sender, receiver] = sessions();
    let transfer = Transfer::new(&receiver, Settings::default()).unwrap();
    let (threads, table) = (&transfer.threads, &transfer.table);
    table.expect(there);
    let before = table.wanted();
    let (jobs, todo) = channel();
    let mut check = HeldCheck::new(&transfer, files(bench, sparse), jobs);
    let (send, ranges) = channel();
    let held = HeldRange {
        file: table.find(0).unwrap(),
        span: (2, 6),
        report,
        copies: Vec::new(),
    };
    send.send(held).unwrap();
    drop(send);
    check.run(&ranges).unwrap();
    drop(check);
    let heard = sender.control.open(LIST).unwrap();
    let frame = threads.receive(&heard, sender.clock).unwrap();
    let Ok(Listing::Compared(compared)) = decode(&frame.octets) else {
        panic!("no answer");
    };
    assert_eq!((compared.entry, compared.span), (0, (2, 6)));
    (compared, todo.iter().collect(), table.wanted() - before)
}

#[test]
fn only_equal_held_ranges_are_used() {
    let noted = [Record {
        span: (2, 6),
        protection: PROTECTION,
    }];
    let digest = |bytes: &[u8]| {
        let mut digester = Digester::new(DigestKind::Crc128, bytes.len() as u64);
        digester.update(0, bytes);
        digester.finish().unwrap()
    };
    let (right, wrong) = (digest(b"2345"), digest(b"2346"));
    for sparse in [false, true] {
        let bench = Bench::new("compare");
        let (compared, jobs, wanted) = compare(&bench, &noted, sparse, Report::Digest(right));
        assert_eq!((compared.wanted, wanted), (false, 0));
        let kept = |job: &Job| matches!(job, Job::Kept(_, (2, 6), digest) if *digest == right);
        assert!(jobs.len() == 1 && kept(&jobs[0]), "{jobs:?}");
        assert_eq!(bench.read("a.part")[2..6], *b"2345");
        // the journal is locked as long as the file is open
        drop(jobs);

        let (compared, jobs, wanted) = compare(&bench, &noted, sparse, Report::Digest(wrong));
        assert_eq!((compared.wanted, wanted, jobs.len()), (true, 4, 0));
        let there = if sparse { [0; 4] } else { *b"2345" };
        assert_eq!(bench.read("a.part")[2..6], there);
    }
    // the file fails if the sender cannot read it, or if its journal has changed since it was
    // listed
    let bench = Bench::new("compare-fails");
    let unread = Report::Failed {
        code: Code::Changed as u8,
        why: "it changed".into(),
    };
    let (compared, jobs, wanted) = compare(&bench, &noted, false, unread);
    assert_eq!((compared.wanted, wanted), (false, 0));
    let failed = |job: &Job, code| matches!(job, Job::Failed(0, error) if error.code() == code);
    assert!(
        jobs.len() == 1 && failed(&jobs[0], Code::Changed),
        "{jobs:?}"
    );
    drop(jobs);
    let (compared, jobs, wanted) = compare(&bench, &[], false, Report::Digest(right));
    assert_eq!((compared.wanted, wanted), (false, 0));
    assert!(jobs.len() == 1 && failed(&jobs[0], Code::Open), "{jobs:?}");
}
