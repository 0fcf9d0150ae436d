//! Tests of a lane's sink: bytes that arrive for files, written to their temporary files.
//!
//! The tests write objects to a `FileSink` without a network, in any order and over several lanes.
//! They check bytes, digests, locks, open files and early metadata.

use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use lighthaul_files::digest::{DigestKind, Digester};
use lighthaul_files::filter::Rules;
use lighthaul_files::listed::SourceEntries;
use lighthaul_files::object::{Layout, Piece, Span};
use lighthaul_files::options::Options;
use lighthaul_files::walk::{Found, Walk};
use lighthaul_fs::file_access::FileAccess;
use lighthaul_io::store::blocks::Sink;

use super::bench::{Bench, SECONDS, octets};
use super::checked_list::file;
use super::temp_files::{files, pending};
use crate::entry_table::PendingFile;
use crate::job::{Incoming, Job};
use crate::sink::FileSink;

/// Returns a lane that receives an object of these ranges, and its jobs for the publisher.
fn lane(bench: &Bench, ranges: &[(&Arc<PendingFile>, Span)]) -> (FileSink, Receiver<Job>) {
    let (jobs, todo) = channel();
    let mut sink = FileSink {
        threads: Arc::default(),
        files: files(bench, false),
        kind: DigestKind::Crc128,
        open_max: 1,
        jobs,
        object: None,
    };
    let piece = |(file, (from, till)): &(&Arc<PendingFile>, Span)| Piece {
        entry: file.number,
        offset: *from,
        len: till - from,
    };
    let object = Incoming {
        protocol: lighthaul_session::protocol::Protocol::Rbudp,
        number: 0,
        layout: Layout::new(ranges.iter().map(piece).collect()).unwrap(),
        files: ranges.iter().map(|(file, _)| Arc::clone(file)).collect(),
    };
    sink.begin(object.into()).unwrap();
    (sink, todo)
}

/// Lanes that write parts of one file find it as the others have left it.
#[test]
fn parts_of_a_file_may_come_over_several_lanes() {
    for in_place in [false, true] {
        for resumable in [false, true] {
            let bench = Bench::new("lanes");
            let file = Arc::new(pending(file("a", 4), in_place, resumable));
            let (mut first, first_jobs) = lane(&bench, &[(&file, (0, 2))]);
            let (mut second, second_jobs) = lane(&bench, &[(&file, (2, 4))]);
            first.write(0, b"0").unwrap();
            second.write(0, b"23").unwrap();
            second.end().unwrap();
            first.write(1, b"1").unwrap();
            first.end().unwrap();
            for jobs in [first_jobs, second_jobs] {
                let job = jobs.try_recv().unwrap();
                let Job::Arrived(arrived) = job else {
                    panic!("{in_place} {resumable}: {job:?}");
                };
                assert!(arrived.digests[0].is_some());
            }
            assert_eq!(bench.read(if in_place { "a" } else { "a.part" }), b"0123");
        }
    }
}

/// A small in-place file that comes as a whole needs no lock when it is written. A large one keeps it, since several
/// lanes may write it.
#[test]
fn only_a_large_in_place_file_stays_locked() {
    for resumable in [false, true] {
        let bench = Bench::new("stays-locked");
        let file = Arc::new(pending(file("a", 4), true, resumable));
        let (mut lane, _jobs) = lane(&bench, &[(&file, (0, 4))]);
        lane.write(0, b"0123").unwrap();
        // a small file is closed before the end of the object
        let other = File::options().write(true).open(bench.target("a"));
        assert_eq!(other.unwrap().try_lock().is_err(), resumable);
        lane.end().unwrap();
        assert_eq!(file.fill().lock.is_some(), resumable);
        assert_eq!(bench.read("a"), b"0123");
    }
}

/// BLAKE3 needs the bytes in order, so bytes out of order are read back.
#[test]
fn digest_of_bytes_out_of_order_equals_the_digest_of_the_range() {
    const LEN: usize = (1 << 20) + 20;
    for kind in [DigestKind::Crc128, DigestKind::Blake3] {
        for offset in [0, 7] {
            let bench = Bench::new("disorder");
            let bytes = octets(LEN, 3);
            let range = &bytes[offset..];
            let file = Arc::new(pending(file("a", LEN as u64), false, false));
            let (mut lane, jobs) = lane(&bench, &[(&file, (offset as u64, LEN as u64))]);
            lane.kind = kind;
            lane.write(1000, &range[1000..]).unwrap();
            lane.write(0, &range[..1000]).unwrap();
            lane.end().unwrap();
            let Ok(Job::Arrived(arrived)) = jobs.try_recv() else {
                panic!("it did not arrive");
            };
            let mut digester = Digester::new(kind, range.len() as u64);
            digester.update(0, range);
            assert_eq!(arrived.digests, [digester.finish()], "{kind:?} {offset}");
            assert!(bench.read("a.part")[offset..] == *range);
        }
    }
}

#[test]
fn number_of_open_files_is_bounded() {
    let bench = Bench::new("open-max");
    let files = [(0, "a"), (1, "b")].map(|(number, name)| {
        let names = (name.into(), format!("{name}.journal").into());
        Arc::new(PendingFile::new(number, file(name, 2), names, false))
    });
    let (mut lane, _jobs) = lane(&bench, &[(&files[0], (0, 2)), (&files[1], (0, 2))]);
    let is_open = |path| {
        // an in-place file is locked as long as it is open
        let other = File::options().write(true).open(bench.target(path));
        other.unwrap().try_lock().is_err()
    };
    lane.write(0, b"0").unwrap();
    assert!(is_open("a"));
    lane.write(2, b"2").unwrap();
    assert!(!is_open("a") && is_open("b"));
    lane.write(1, b"1").unwrap();
    lane.write(3, b"3").unwrap();
    assert_eq!(
        (bench.read("a"), bench.read("b")),
        (b"01".to_vec(), b"23".to_vec())
    );
}

/// Under its final name a file would look complete before its data is compared.
#[test]
fn complete_file_gets_its_metadata_early_under_a_temporary_name() {
    for in_place in [false, true] {
        let bench = Bench::new("early");
        let file = Arc::new(pending(file("a", 4), in_place, false));
        let path = if in_place { "a" } else { "a.part" };
        let (mut lane, _jobs) = lane(&bench, &[(&file, (0, 4))]);
        lane.write(0, b"01").unwrap();
        assert!(!file.fill().finished && bench.look(path).1 != SECONDS);
        lane.write(2, b"23").unwrap();
        assert_eq!(file.fill().finished, !in_place);
        let (mode, seconds, _) = bench.look(path);
        let is_complete = (mode, seconds) == (0o640, SECONDS);
        assert_eq!(is_complete, !in_place, "{mode:o} {seconds}");
        assert!(file.fill().version.is_some());
    }
}

/// A receiver without root's rights cannot open a file without rights of its owner again, for
/// example to sync it.
#[test]
fn file_without_rights_of_its_owner_is_written_and_synced() {
    let (bench, _ordinary) = Bench::ordinary("closed");
    let modes = [0, 0o044, 0o200, 0o400, 0o444, 0o600, 0o640];
    for mode in modes {
        bench.put(&format!("{mode:o}"), [7; 100]);
    }
    let access = Arc::new(FileAccess::anywhere());
    let walk = Walk::new(Arc::clone(&access), &[bench.source("")], Rules::default()).unwrap();
    // as a sender lists it that may read every file
    let listed = walk.map(|mut found| {
        if let Found::Entry(entry, ..) = &mut found
            && let Some(name) = entry.path().to_str()
            && let Ok(mode) = u32::from_str_radix(name, 8)
        {
            entry.mode = mode;
        }
        found
    });
    let options = Options {
        sync: true,
        ..Options::default()
    };
    let finds = SourceEntries::from_entries(access, listed);
    bench.send(finds, "target/", &options, &mut |_| {}).whole();
    for mode in modes {
        assert_eq!(bench.look(&format!("{mode:o}")).0, mode, "{mode:o}");
    }
}
