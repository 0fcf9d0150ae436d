//! Tests of the table of entries: failures, ranges, the result, and what a peer may list.

use std::sync::mpsc::sync_channel;

use lighthaul_files::options::Action;
use lighthaul_session::error::Code;

use super::*;

fn file(number: u64, size: u64) -> Entry {
    Entry {
        kind: EntryKind::File(size),
        ..Entry::bare(number.to_string().into_bytes())
    }
}

/// Returns a file of which the ranges `owed` are requested.
fn pending(number: u64, owed: &[Span]) -> PendingFile {
    let names = (PathBuf::from("part"), PathBuf::new());
    let pending = PendingFile::new(number, file(number, 100), names, false);
    pending.expect(owed);
    pending
}

fn piece(entry: u64, (from, till): Span) -> Piece {
    Piece {
        entry,
        offset: from,
        len: till - from,
    }
}

fn failure() -> Error {
    Error::from(PeerFault::reported(Code::Io as u8, "cannot write"))
}

#[test]
fn reports_wait_while_the_sender_has_not_read_too_many() {
    let table = EntryTable::default();
    let planned = |len| Planned {
        action: Action::Create,
        path: vec![b'x'; len],
        bytes: 0,
        kept: 0,
        why: String::new(),
        item: None,
    };
    table.list(2).unwrap();
    table.itemize(1, planned(4 << 20));
    assert!(!table.reports_wait(), "it is not settled");
    table.settle(1, &file(1, 0), Ok(Settled::Now));
    assert!(!table.reports_wait());
    table.itemize(2, planned(1));
    table.settle(2, &file(2, 0), Ok(Settled::Now));
    assert!(table.reports_wait());
    assert_eq!(table.take_done().len(), 2);
    assert!(table.reports_wait(), "they were not sent");
    table.reported(1);
    assert!(!table.reports_wait());
}

#[test]
fn item_that_was_not_removed_is_reported_once() {
    let table = EntryTable::default();
    let kept = Failure {
        number: 3,
        path: b"old".to_vec(),
        code: Code::Io as u8,
        why: "cannot remove".into(),
    };
    table.report_kept(kept.clone());
    assert_eq!(table.take_kept(), [kept]);
    assert_eq!(table.take_kept(), []);
}

#[test]
fn temporary_folder_is_reported_only_if_it_differs() {
    for (temporary, apart, in_place) in [
        ("a/.part", None, false),
        ("a/.parts/b", Some("a/.parts"), false),
        ("a/b", None, true),
    ] {
        let entry = Entry::bare(b"a/b".to_vec());
        let names = (temporary.into(), PathBuf::new());
        let pending = PendingFile::new(0, entry, names, false);
        assert_eq!(pending.apart(), apart.map(Path::new));
        assert_eq!(pending.is_in_place(), in_place);
    }
}

#[test]
fn pieces_are_accepted_once_and_only_if_requested() {
    let table = EntryTable::default();
    table.expect(pending(1, &[(0, 50), (60, 100)]));
    table.expect(pending(2, &[(0, 10)]));
    assert_eq!(table.wanted(), 100);
    assert_eq!(table.find(1).unwrap().fill().uncompared_bytes, 90);
    let numbers = |files: Vec<Arc<PendingFile>>| -> Vec<u64> {
        files.iter().map(|file| file.number).collect()
    };
    let files = table.announce(&[piece(1, (10, 50)), piece(2, (0, 10))]);
    assert_eq!(numbers(files.unwrap()), [1, 2]);
    for refused in [piece(1, (10, 20)), piece(1, (50, 60)), piece(3, (0, 1))] {
        let error = table.announce(&[refused]).unwrap_err();
        assert_eq!(error.code(), Code::Protocol);
    }
    table.announce(&[piece(1, (0, 10))]).unwrap();
    // a range that differs from the source is requested
    let file = table.find(1).unwrap();
    assert_eq!(table.owe(&file, (10, 20)), Ok(true));
    assert_eq!(table.wanted(), 110);
    table.announce(&[piece(1, (10, 20))]).unwrap();
    file.fill().failed = true;
    assert_eq!(table.owe(&file, (10, 20)), Ok(false));
    table.announce(&[piece(1, (10, 20))]).unwrap_err();
    assert_eq!(numbers(table.pending()), [1, 2]);
    assert!(table.find(3).is_none());
}

#[test]
fn digests_are_accepted_once_and_only_if_requested() {
    let table = EntryTable::default();
    let file = pending(1, &[]);
    file.expect_digests(&[(0, 50)], digest::DigestKind::Blake3, Vec::new());
    assert_eq!(file.held_digest(), digest::DigestKind::Blake3);
    assert_eq!(file.fill().uncompared_bytes, 50);
    table.expect(file);
    assert_eq!(table.compare(1, (0, 20)).unwrap().number, 1);
    for (number, span) in [(1, (0, 20)), (1, (40, 60)), (2, (0, 1))] {
        let error = table.compare(number, span).unwrap_err();
        assert_eq!(error.code(), Code::Protocol);
    }
    // messages about a failed file may still arrive
    let failed = table.find(1).unwrap();
    table.settle(1, &failed.entry, Err(failure()));
    assert!(table.find(1).is_none());
    table.compare(1, (20, 50)).unwrap();
}

/// A copy is complete when no more bytes can arrive, and settled when all entries have a
/// result.
#[test]
fn copy_is_complete_when_no_more_bytes_can_arrive() {
    for (owed, held, more) in [
        (vec![], vec![], false),
        (vec![(0, 9)], vec![], true),
        (vec![], vec![(0, 9)], true),
        (vec![(0, 9)], vec![(9, 20)], true),
    ] {
        let table = EntryTable::default();
        table.list(1).unwrap();
        let file = pending(0, &owed);
        file.expect_digests(&held, digest::DigestKind::Crc128, Vec::new());
        let entry = file.entry.clone();
        table.expect(file);
        assert!(!table.is_complete() && !table.is_closed());
        table.close();
        assert!(!table.is_complete() && table.is_closed() && !table.is_settled());
        table.settle(0, &entry, Err(failure()));
        assert_eq!(table.is_complete(), !more);
        assert!(table.is_settled());
        let announced = table.announce(&[piece(0, (0, 1))]);
        assert_eq!(announced.is_ok(), owed == [(0, 9)]);
    }
    // a copy is not complete before the end of the list
    let table = EntryTable::default();
    assert!(!table.is_complete() && !table.is_settled());
    table.expect(pending(0, &[]));
    table.close();
    assert!(!table.is_complete());
}

#[test]
fn peer_cannot_list_more_than_the_window() {
    let table = EntryTable::default();
    table.list(WINDOW - 1).unwrap();
    table.list(1).unwrap();
    table.skip(0);
    table.settle(0, &file(0, 1), Ok(Settled::Now));
    table.list(2).unwrap();
    assert_eq!(table.list(1).unwrap_err().code(), Code::Protocol);
}

#[test]
fn result_counts_entries_in_place() {
    let table = EntryTable::default();
    let (listener, heard) = sync_channel(9);
    table.report_files(listener);
    table.settle(0, &file(0, 10), Ok(Settled::Now));
    table.settle(1, &file(1, 20), Ok(Settled::Before));
    table.settle(2, &file(2, 40), Err(failure()));
    let folder = |kind| Entry { kind, ..file(3, 0) };
    table.settle(3, &folder(EntryKind::Folder), Ok(Settled::Before));
    table.settle(4, &folder(EntryKind::FolderEnd), Ok(Settled::Now));
    table.skip(0);
    let counts = CopyResult {
        entries: 3,
        bytes: 30,
        unchanged: 2,
    };
    assert_eq!(table.counts(), counts);
    let (settled, failures) = table.take_settled();
    assert_eq!((settled, failures.len()), (6, 1));
    assert_eq!((failures[0].number, failures[0].code), (2, Code::Io as u8));
    assert_eq!(table.take_settled(), (0, Vec::new()), "reported once");
    let heard: Vec<_> = heard.try_iter().collect();
    assert_eq!(heard, [PathBuf::from("0"), PathBuf::from("1")]);
    table.set_expected(&file(7, 1));
    assert_eq!(table.expected(), Path::new("7"));
}

#[test]
fn folder_ends_after_all_earlier_entries() {
    let table = EntryTable::default();
    table.expect(pending(2, &[]));
    table.begin_links(0, &file(0, 1), 1);
    table.end_folder(1, folder_end());
    table.end_folder(5, folder_end());
    let left = |table: &EntryTable| table.take_ended_folder().map(|(number, _)| number);
    assert_eq!(left(&table), Some(1));
    assert_eq!(left(&table), None, "an earlier file is pending");
    let name = Name {
        number: 4,
        entry: file(4, 1),
        temporary: PathBuf::new(),
    };
    assert!(table.link(0, name));
    table.settle(2, &file(2, 1), Ok(Settled::Now));
    assert_eq!(left(&table), None, "a hard link waits for its file");
    assert!(table.take_ready_link().is_none());
    table.settle(0, &file(0, 1), Ok(Settled::Now));
    let (name, first) = table.take_ready_link().unwrap();
    assert_eq!((name.number, first), (4, Ok(b"0".to_vec())));
    table.settle(4, &name.entry, Ok(Settled::Now));
    assert_eq!(left(&table), Some(5));
    assert_eq!(left(&table), None);
}

fn folder_end() -> Entry {
    Entry {
        kind: EntryKind::FolderEnd,
        ..file(9, 0)
    }
}

#[test]
fn ranges_of_all_files_are_bounded_and_failed_files_need_one() {
    const FILES: u64 = 8;
    let table = EntryTable::default();
    for number in 0..FILES {
        let names = (PathBuf::from("part"), PathBuf::new());
        let size = 4 * SPLIT_MAX as u64;
        let pending = PendingFile::new(number, file(number, size), names, false);
        pending.expect_delta(&[(0, size)], 5);
        table.expect(pending);
    }
    let mut left = (0..SPLIT_MAX as u64).flat_map(|nth| {
        let numbers = 0..FILES;
        numbers.map(move |number| (number, (2 * nth + 1, 2 * nth + 2)))
    });
    let mut named = 0;
    let error = loop {
        let (number, span) = left.next().unwrap();
        match table.decide(number, span, &[]) {
            Ok((_, bytes)) => assert_eq!(bytes, 1),
            Err(error) => break error,
        }
        named += 1;
    };
    assert_eq!(error.code(), Code::Protocol);
    // each stretch is owed, and leaves ranges on both sides
    assert_eq!(named, SPLIT_MAX / 2);
    let failed = table.find(0).unwrap();
    let fault = || PeerFault::reported(Code::Changed as u8, "it changed").into();
    table.settle(0, &failed.entry, Err(fault()));
    assert_eq!(failed.ranges(), 2);
    // there is room again
    let (number, span) = left.next().unwrap();
    table.decide(number, span, &[]).unwrap();
}

#[test]
fn sums_of_the_old_version_are_requested_once() {
    let file = pending(0, &[]);
    file.expect_delta(&[(0, 60)], 40);
    assert_eq!(file.fill().uncompared_bytes, 60);
    assert!(!file.has_delta());
    assert_eq!(file.take_basis(5), Some(40));
    assert!(file.has_delta());
    assert_eq!(file.take_basis(5), None);
}

#[test]
fn sums_are_needed_until_all_is_decided_or_the_file_has_failed() {
    let delta = || {
        let file = pending(0, &[]);
        file.expect_delta(&[(0, 60)], 40);
        file
    };
    let file = delta();
    file.decide((0, 50), &[]).unwrap();
    assert!(!file.is_decided());
    file.decide((50, 60), &[]).unwrap();
    assert!(file.is_decided());
    let failed = delta();
    failed.fill().failed = true;
    assert!(failed.is_decided());
}

#[test]
fn gaps_of_a_failed_file_may_arrive_in_any_order() {
    let names = (PathBuf::from("t"), PathBuf::from("j"));
    let failed = PendingFile::new(0, file(0, 100), names, false);
    failed.expect(&[(0, 10), (90, 100)]);
    failed.expect_delta(&[(10, 90)], 100);
    failed.fill().failed = true;
    failed.join_ranges();
    // in the middle of what is owed already
    assert_eq!(failed.decide((10, 90), &[]), Some(80));
    for (offset, len) in [(90, 10), (40, 10), (0, 10)] {
        let entry = 0;
        assert!(failed.announce(&Piece { entry, offset, len }), "{offset}");
    }
}

#[test]
fn late_gap_keeps_the_rest_of_a_failed_file() {
    let failed = pending(0, &[(0, 10), (20, 30)]);
    failed.expect_delta(&[(10, 20)], 100);
    failed.fill().failed = true;
    failed.join_ranges();
    assert!(failed.announce(&piece(0, (0, 10))));
    // the joined range begins where the gap begins
    assert_eq!(failed.decide((10, 20), &[]), Some(10));
    assert!(failed.announce(&piece(0, (20, 30))));
    assert!(failed.announce(&piece(0, (10, 20))));
    assert!(!failed.is_awaited());
}
