//! Tests of parts of a new file that are copied from its old version.
//!
//! The test gives stretches of copies with the sender's digests to a `HeldCheck`. Equal parts must
//! be in the temporary file, and different or missing parts must be requested. The old version must
//! stay as it is.

use std::sync::mpsc::channel;

use lighthaul_copy::message::{LIST, Listing};
use lighthaul_copy::report::Report;
use lighthaul_copy::watch::DeltaTotals;
use lighthaul_files::delta::stretch::Copied;
use lighthaul_files::digest::{Digest, DigestKind, Digester};
use lighthaul_files::object::Span;
use lighthaul_session::topic::decode;

use super::bench::{Bench, octets, sessions};
use super::checked_list::file;
use super::temp_files::files;
use crate::entry_table::PendingFile;
use crate::held::{HeldCheck, HeldRange};
use crate::job::Job;
use crate::settings::Settings;
use crate::transfer::Transfer;

/// Files that are received, by number.
const NAMES: [&str; 2] = ["a", "b"];
/// Size of their new versions.
const SIZE: usize = (1 << 20) + 100;

/// Parts of a file with this number, and the sender's digest of them.
type Stretch = (u64, Vec<Copied>, Digest);

/// Results of copying stretches.
#[derive(Debug)]
struct Copies {
    /// For each stretch, true if the sender must send its parts.
    wanted: Vec<bool>,
    /// Copied ranges, with the numbers of their files.
    done: Vec<(u64, Vec<Span>)>,
    /// Bytes that are requested.
    requested: u64,
    totals: DeltaTotals,
}

/// Copies stretches of new files from the old versions at the target.
fn copy(bench: &Bench, sparse: bool, stretches: Vec<Stretch>) -> Copies {
    let [sender, receiver] = sessions();
    let transfer = Transfer::new(&receiver, Settings::default()).unwrap();
    let (threads, table) = (&transfer.threads, &transfer.table);
    for (number, name) in (0..).zip(NAMES) {
        let names = (format!("{name}.part").into(), String::new().into());
        table.expect(PendingFile::new(
            number,
            file(name, SIZE as u64),
            names,
            false,
        ));
    }
    let (send, ranges) = channel();
    let count = stretches.len();
    for (number, copies, digest) in stretches {
        let bytes = copies.iter().map(|copied| copied.len).sum();
        transfer.monitor.delta().add(bytes, 0);
        let held = HeldRange {
            file: table.find(number).unwrap(),
            span: (copies[0].span().0, copies[copies.len() - 1].span().1),
            copies,
            report: Report::Digest(digest),
        };
        send.send(held).unwrap();
    }
    drop(send);
    let (jobs, todo) = channel();
    let mut check = HeldCheck::new(&transfer, files(bench, sparse), jobs);
    check.run(&ranges).unwrap();
    drop(check);
    let heard = sender.control.open(LIST).unwrap();
    let answer = || {
        let frame = threads.receive(&heard, sender.clock).unwrap();
        match decode(&frame.octets) {
            Ok(Listing::Compared(compared)) => compared.wanted,
            other => panic!("{other:?}"),
        }
    };
    let done = todo.iter().map(|job| {
        let Job::Copied(file, ranges, _) = job else {
            panic!("{job:?}");
        };
        (file.number, ranges)
    });
    Copies {
        wanted: std::iter::repeat_with(answer).take(count).collect(),
        done: done.collect(),
        requested: table.wanted(),
        totals: *transfer.monitor.delta(),
    }
}

fn copied(offset: u64, from: u64, len: u64) -> Copied {
    Copied { offset, len, from }
}

fn digest(bytes: &[u8]) -> Digest {
    let mut digester = Digester::new(DigestKind::Blake3, bytes.len() as u64);
    digester.update(0, bytes);
    digester.finish().unwrap()
}

/// Parts of "0123456789": "567", "01" behind it, and "4" farther on.
fn parts() -> Vec<Copied> {
    vec![copied(2, 5, 3), copied(5, 0, 2), copied(9, 4, 1)]
}

#[test]
fn equal_parts_of_the_old_version_are_kept() {
    for sparse in [false, true] {
        let bench = Bench::new("copied");
        bench.leave("a", "0123456789");
        let copies = copy(&bench, sparse, vec![(0, parts(), digest(b"567014"))]);
        assert_eq!((copies.wanted, copies.requested), (vec![false], 0));
        assert_eq!(copies.done, [(0, vec![(2, 7), (9, 10)])]);
        assert_eq!((copies.totals.copied, copies.totals.sent), (6, 0));
        let there = bench.read("a.part");
        assert_eq!((&there[2..7], &there[9..10]), (&b"56701"[..], &b"4"[..]));
        assert_eq!(bench.read("a"), b"0123456789");
    }
}

/// Another program may have changed the old version. With `--sparse`, zeros that arrive are not written, so that the
/// copied bytes must be removed.
#[test]
fn parts_of_a_changed_old_version_are_requested() {
    for sparse in [false, true] {
        let bench = Bench::new("copied-differs");
        bench.leave("a", "0123456789");
        let copies = copy(&bench, sparse, vec![(0, parts(), digest(b"567015"))]);
        assert_eq!((copies.wanted, copies.requested), (vec![true], 6));
        assert_eq!(copies.done, []);
        assert_eq!((copies.totals.copied, copies.totals.sent), (0, 6));
        if sparse {
            assert_eq!(bench.read("a.part")[..10], [0; 10]);
        }
    }
}

#[test]
fn parts_that_the_old_version_lacks_are_requested() {
    let bench = Bench::new("copied-lacks");
    bench.leave("a", "0123456789");
    let stretches = vec![
        (0, vec![copied(0, 8, 3)], digest(b"89\0")),
        // it was removed
        (1, vec![copied(0, 0, 1)], digest(b"0")),
        (0, vec![copied(3, 0, 4)], digest(b"0123")),
    ];
    let copies = copy(&bench, false, stretches);
    assert_eq!(copies.wanted, [true, true, false]);
    assert_eq!(
        (copies.requested, copies.done),
        (4, vec![(0, vec![(3, 7)])])
    );
}

#[test]
fn each_file_is_copied_from_its_own_old_version() {
    let bench = Bench::new("copied-both");
    bench.leave("a", "0123");
    bench.leave("b", "4567");
    let whole = |number, at, bytes| (number, vec![copied(at, 0, 4)], digest(bytes));
    let stretches = vec![
        whole(0, 0, b"0123"),
        whole(1, 0, b"4567"),
        whole(1, 4, b"4567"),
        whole(0, 4, b"0123"),
    ];
    let copies = copy(&bench, false, stretches);
    assert_eq!(copies.wanted, [false; 4]);
    assert_eq!(bench.read("a.part")[..8], *b"01230123");
    assert_eq!(bench.read("b.part")[..8], *b"45674567");
}

/// More bytes than are copied at a time.
#[test]
fn long_part_of_the_old_version_is_copied() {
    for sparse in [false, true] {
        let bench = Bench::new("copied-long");
        let old = octets(SIZE, 5);
        bench.leave("a", &old);
        let long = SIZE - 20;
        let bytes = [&old[7..7 + long], &old[..3]].concat();
        let parts = vec![copied(10, 7, long as u64), copied(SIZE as u64 - 3, 0, 3)];
        let copies = copy(&bench, sparse, vec![(0, parts, digest(&bytes))]);
        assert_eq!(copies.wanted, [false]);
        let there = bench.read("a.part");
        assert!(there[10..10 + long] == bytes[..long] && there[SIZE - 3..] == old[..3]);
    }
}
