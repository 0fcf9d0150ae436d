//! Table of entries: pending entries, which are listed but not in place yet, and the results of settled entries.
//!
//! Each entry is pending while its bytes arrive and are compared. Then it is settled: it was in place before, it was
//! published, or it has failed. A hard link waits for its file. A directory ends after all of its contents.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use lighthaul_copy::message::{CopyResult, Failure};
use lighthaul_files::backups::Backups;
use lighthaul_files::delta::stretch::Copied;
use lighthaul_files::manifest::{Entry, EntryKind, WINDOW};
use lighthaul_files::object::{Piece, Span};
use lighthaul_files::options::Planned;
use lighthaul_files::stage_log::StageLogs;
use lighthaul_files::waiting_links::{LinkTarget, Links, Name};
use lighthaul_session::error::Error;
use lighthaul_session::fault::PeerFault;

pub(crate) use super::pending_file::PendingFile;
pub(crate) use super::settled_entries::Settled;
use super::settled_entries::SettledEntries;

impl TableState {
    /// Changes the ranges of a file by `change`, and counts the additional ranges that result.
    fn split<T>(
        &mut self,
        file: &PendingFile,
        change: impl FnOnce(&PendingFile) -> T,
    ) -> Result<T, Error> {
        let before = file.ranges();
        let changed = change(file);
        self.split = (self.split + file.ranges()).saturating_sub(before);
        if self.split > SPLIT_MAX {
            return Err(PeerFault::Invalid("more ranges than the limit").into());
        }
        Ok(changed)
    }

    /// Returns a file whose bytes may still arrive.
    fn find(&self, number: u64) -> Option<Arc<PendingFile>> {
        let file = self.pending.get(&number);
        file.or_else(|| self.failed.get(&number)).cloned()
    }

    /// Reports the differences of an entry that is in place.
    fn report(&mut self, number: u64, ok: bool) {
        let item = self.items.remove(&number).filter(|_| ok);
        self.unreported += item.as_ref().map_or(0, |item| item.path.len());
        self.done.extend(item);
    }

    /// Counts one more entry that is in place or has failed.
    fn settle(&mut self, entry: &Entry) {
        self.settled += 1;
        self.open = self.open.saturating_sub(1);
        self.octets = self.octets.saturating_sub(entry.encoded_len());
    }
}

/// Maximum number of additional ranges, over all files, that a sender makes by splitting requested ranges. At most 2^15
/// wait to be sent, 2^15 are searched later, 2^15 differ, and 2^17 are in new objects of eight lanes.
const SPLIT_MAX: usize = 1 << 18;
/// Maximum total length in bytes of the paths of changed entries whose reports wait for the sender.
const UNREPORTED_MAX: usize = 4 << 20;

/// Maximum number of octets of entries that wait to be settled, before a page of more.
const OCTETS_MAX: usize = 256 << 20;

/// Table that the threads of a receiver share.
#[derive(Debug, Default)]
pub(crate) struct EntryTable {
    state: Mutex<TableState>,
    /// Queue of files that are in place, if their hashes are wanted.
    in_place: OnceLock<SyncSender<PathBuf>>,
    /// Backups of replaced files, if the user asked for backups.
    pub(crate) backups: OnceLock<Backups>,
    /// Numbers of entries that the sender may remove, if it removes entries.
    pub(crate) placed: SettledEntries,
    pub(crate) stage: StageLogs,
}

// fields: state that the threads share under one lock
#[derive(Debug, Default)]
struct TableState {
    pending: BTreeMap<u64, Arc<PendingFile>>,
    /// Failed files whose bytes may still arrive.
    failed: BTreeMap<u64, Arc<PendingFile>>,
    /// Directories that get their metadata when all earlier entries are in place.
    ended_folders: VecDeque<(u64, Entry)>,
    links: Links,
    counts: CopyResult,
    wanted: u64,
    /// Entries that are listed and not settled.
    open: u64,
    /// Octets of entries that were not skipped or settled.
    octets: usize,
    /// Settled entries that were not reported to the sender.
    settled: u64,
    failures: Vec<Failure>,
    /// Items that were not removed and not reported to the sender.
    not_removed: Vec<Failure>,
    /// Differences of entries that are not settled.
    items: BTreeMap<u64, Planned>,
    /// Entries that were changed since the last report.
    done: Vec<Planned>,
    /// Bytes of paths of changed entries that were not reported to the sender.
    unreported: usize,
    /// Ranges that the sender has made of others, and not sent.
    split: usize,
    /// Path of the only file, if its expected hash is known.
    expected: PathBuf,
    /// True if the list is complete.
    listed: bool,
}

impl EntryTable {
    fn lock(&self) -> MutexGuard<'_, TableState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the path of each file that is in place to `listener`.
    pub(crate) fn report_files(&self, listener: SyncSender<PathBuf>) {
        self.in_place.set(listener).ok();
    }

    /// Counts listed entries. Fails if the peer exceeds its window.
    pub(crate) fn list(&self, entries: u64) -> Result<(), Error> {
        let mut state = self.lock();
        state.open += entries;
        if state.open > WINDOW {
            return Err(PeerFault::Invalid("more entries than the window allows").into());
        }
        Ok(())
    }

    /// Counts the memory of an entry until it is settled or skipped.
    pub(crate) fn hold(&self, entry: &Entry) {
        self.lock().octets += entry.encoded_len();
    }

    /// Returns true if entries must be settled before more are taken, since theirs is too much metadata.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().octets > OCTETS_MAX
    }

    /// Adds a file that will be received.
    pub(crate) fn expect(&self, pending: PendingFile) {
        let mut state = self.lock();
        state.wanted = state.wanted.saturating_add(pending.owed());
        state.pending.insert(pending.number, Arc::new(pending));
    }

    /// Returns the file of a range whose digest arrived. Fails if the digest was not requested.
    pub(crate) fn compare(&self, number: u64, span: Span) -> Result<Arc<PendingFile>, Error> {
        let mut state = self.lock();
        let invalid = || PeerFault::Invalid("a digest that was not requested");
        let file = state.find(number).ok_or_else(invalid)?;
        let is_compared = state.split(&file, |file| file.compare(span))?;
        Ok(is_compared.then_some(file).ok_or_else(invalid)?)
    }

    /// Requests a range that differs from the source. Returns false for a failed file.
    pub(crate) fn owe(&self, file: &PendingFile, span: Span) -> Result<bool, Error> {
        let mut state = self.lock();
        let wanted = state.split(file, |file| file.owe(span))?;
        if wanted {
            state.wanted = state.wanted.saturating_add(span.1 - span.0);
        }
        Ok(wanted)
    }

    /// Records that the sender sends a stretch of a file except `copies`. Returns the file and the number of bytes to
    /// send. Fails if that was decided before, or is impossible.
    pub(crate) fn decide(
        &self,
        number: u64,
        span: Span,
        copies: &[Copied],
    ) -> Result<(Arc<PendingFile>, u64), Error> {
        let mut state = self.lock();
        let file = state.find(number);
        let file = file.ok_or(PeerFault::Invalid("a delta that was not requested"))?;
        let bytes = state.split(&file, |file| file.decide(span, copies))?;
        let bytes = bytes.ok_or(PeerFault::Invalid("a stretch that was not requested"))?;
        state.wanted = state.wanted.saturating_add(bytes);
        Ok((file, bytes))
    }

    /// Returns the file of a delta. Fails if it is in place, or was not wanted.
    pub(crate) fn with_basis(&self, number: u64) -> Result<Arc<PendingFile>, Error> {
        let file = self.lock().find(number);
        file.ok_or_else(|| PeerFault::Invalid("a delta that was not requested").into())
    }

    /// Records `entry` as the file whose expected hash is known.
    pub(crate) fn set_expected(&self, entry: &Entry) {
        entry.path().clone_into(&mut self.lock().expected);
    }

    /// Returns the path of the file whose expected hash is known.
    pub(crate) fn expected(&self) -> PathBuf {
        self.lock().expected.clone()
    }

    /// Records the end of a directory.
    pub(crate) fn end_folder(&self, number: u64, entry: Entry) {
        self.lock().ended_folders.push_back((number, entry));
    }

    /// Sets the number of hard links to `entry` that are still expected.
    pub(crate) fn begin_links(&self, number: u64, entry: &Entry, left: u64) {
        self.lock().links.begin(number, entry, left);
    }

    /// Queues a hard link to entry `first`. Returns false if that entry is unknown, or is another file.
    pub(crate) fn link(&self, first: u64, name: Name) -> bool {
        self.lock().links.wait(first, name)
    }

    /// Returns the next hard link whose file is in place or has failed.
    pub(crate) fn take_ready_link(&self) -> Option<(Name, LinkTarget)> {
        self.lock().links.take_ready()
    }

    /// Records the end of the list.
    pub(crate) fn close(&self) {
        self.lock().listed = true;
    }

    /// Returns true after the end of the list.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().listed
    }

    /// Records the result of entry `number`.
    pub(crate) fn settle(&self, number: u64, entry: &Entry, result: Result<Settled, Error>) {
        if let (Ok(_), EntryKind::File(_), Some(listener)) =
            (&result, &entry.kind, self.in_place.get())
        {
            // a listener that has stopped has reported the reason
            listener.send(entry.path().to_owned()).ok();
        }
        self.placed.record(number, result.as_ref().ok());
        let mut state = self.lock();
        state.report(number, result.is_ok());
        state.links.settle(
            number,
            result
                .as_ref()
                .map(drop)
                .map_err(|error| error.code() as u8),
        );
        if let Some(file) = state.pending.remove(&number)
            && file.is_awaited()
        {
            state.split(&file, PendingFile::join_ranges).ok();
            state.failed.insert(number, file);
        }
        state.settle(entry);
        match result {
            Ok(settled) => {
                if entry.kind != EntryKind::FolderEnd {
                    state.counts.entries += 1;
                    state.counts.bytes = state.counts.bytes.saturating_add(entry.size());
                    state.counts.unchanged += u64::from(settled != Settled::Now);
                }
            }
            Err(error) => state.failures.push(Failure {
                number,
                path: entry.path.clone(),
                code: error.code() as u8,
                why: error.text(),
            }),
        }
    }

    /// Counts entry `number`, which failed for a reason that was reported before, or is left out.
    pub(crate) fn skip(&self, number: u64, entry: &Entry) {
        self.placed.record(number, None);
        self.lock().settle(entry);
    }

    /// Records the differences of an entry, which are reported when it is settled.
    pub(crate) fn itemize(&self, number: u64, planned: Planned) {
        self.lock().items.insert(number, planned);
    }

    /// Returns true if the sender must read reports before more entries are checked.
    pub(crate) fn reports_wait(&self) -> bool {
        self.lock().unreported > UNREPORTED_MAX
    }

    /// Counts reports with paths of `bytes` bytes, which the sender gets.
    pub(crate) fn reported(&self, bytes: usize) {
        let mut state = self.lock();
        state.unreported = state.unreported.saturating_sub(bytes);
    }

    /// Records an item that was not removed.
    pub(crate) fn report_kept(&self, failure: Failure) {
        self.lock().not_removed.push(failure);
    }

    /// Takes the items that were not removed since the last call.
    pub(crate) fn take_kept(&self) -> Vec<Failure> {
        std::mem::take(&mut self.lock().not_removed)
    }

    /// Takes the entries that were changed since the last call.
    pub(crate) fn take_done(&self) -> Vec<Planned> {
        std::mem::take(&mut self.lock().done)
    }

    /// Takes the number of entries settled since the last call, and the failures among them.
    pub(crate) fn take_settled(&self) -> (u64, Vec<Failure>) {
        let mut state = self.lock();
        (
            std::mem::take(&mut state.settled),
            std::mem::take(&mut state.failures),
        )
    }

    /// Takes the next ended directory whose contents are in place.
    pub(crate) fn take_ended_folder(&self) -> Option<(u64, Entry)> {
        let mut state = self.lock();
        let pending = state.pending.first_key_value().map(|(number, _)| *number);
        let open = pending.into_iter().chain(state.links.first_open());
        let first = open.min().unwrap_or(u64::MAX);
        let ready = state
            .ended_folders
            .front()
            .is_some_and(|(number, _)| *number <= first);
        if ready {
            state.ended_folders.pop_front()
        } else {
            None
        }
    }

    /// Returns the files of an object's pieces. Fails if a piece was not requested.
    pub(crate) fn announce(&self, pieces: &[Piece]) -> Result<Vec<Arc<PendingFile>>, Error> {
        let mut state = self.lock();
        let invalid = || PeerFault::Invalid("a piece of a file that was not requested");
        let file = |piece: &Piece| {
            let file = state.find(piece.entry).ok_or_else(invalid)?;
            let is_owed = state.split(&file, |file| file.announce(piece))?;
            Ok(is_owed.then_some(file).ok_or_else(invalid)?)
        };
        pieces.iter().map(file).collect()
    }

    /// Returns the file of entry `number`, if it is not in place yet.
    pub(crate) fn find(&self, number: u64) -> Option<Arc<PendingFile>> {
        self.lock().pending.get(&number).cloned()
    }

    /// Returns true if all entries are settled and no more bytes can arrive.
    pub(crate) fn is_complete(&self) -> bool {
        let state = self.lock();
        state.listed && state.pending.is_empty() && state.failed.is_empty()
    }

    /// Returns true if all entries of the complete list are in place or have failed.
    pub(crate) fn is_settled(&self) -> bool {
        let state = self.lock();
        state.listed && state.open == 0
    }

    /// Returns the numbers of entries in place.
    pub(crate) fn counts(&self) -> CopyResult {
        self.lock().counts
    }

    /// Returns the requested bytes.
    pub(crate) fn wanted(&self) -> u64 {
        self.lock().wanted
    }

    /// Returns the files that are not in place yet.
    pub(crate) fn pending(&self) -> Vec<Arc<PendingFile>> {
        self.lock().pending.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc::sync_channel;

    use lighthaul_files::digest;
    use lighthaul_files::options::Action;
    use lighthaul_fs::metadata::Extras;
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
    fn reports_wait_while_too_many_reports_are_unread() {
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
    fn temporary_folder_is_reported_only_if_different_from_the_final_folder() {
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

    /// A copy is complete when no more bytes can arrive, and settled when all entries have a result.
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
        table.skip(0, &file(0, 1));
        table.settle(0, &file(0, 1), Ok(Settled::Now));
        table.list(2).unwrap();
        assert_eq!(table.list(1).unwrap_err().code(), Code::Protocol);
    }

    #[test]
    fn large_entries_wait_until_others_are_settled() {
        let table = EntryTable::default();
        let extras = Extras {
            xattrs: vec![(b"user.x".to_vec(), vec![0; Extras::OCTETS_MAX - 6])],
            ..Extras::default()
        };
        let entry = Entry {
            extras: Some(Box::new(extras)),
            ..file(0, 1)
        };
        let mut held = 0;
        while !table.is_full() {
            table.hold(&entry);
            held += 1;
        }
        assert_eq!(held, OCTETS_MAX / Extras::OCTETS_MAX);
        table.settle(0, &entry, Ok(Settled::Now));
        assert!(!table.is_full());
        table.hold(&entry);
        assert!(table.is_full());
        table.skip(1, &entry);
        assert!(!table.is_full());
    }

    #[test]
    fn result_has_the_number_of_entries_in_place() {
        let table = EntryTable::default();
        let (listener, heard) = sync_channel(9);
        table.report_files(listener);
        table.settle(0, &file(0, 10), Ok(Settled::Now));
        table.settle(1, &file(1, 20), Ok(Settled::Before));
        table.settle(2, &file(2, 40), Err(failure()));
        let folder = |kind| Entry { kind, ..file(3, 0) };
        table.settle(3, &folder(EntryKind::Folder), Ok(Settled::Before));
        table.settle(4, &folder(EntryKind::FolderEnd), Ok(Settled::Now));
        table.skip(0, &file(0, 1));
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
    fn ranges_of_all_files_are_bounded_and_failed_files_need_a_single_range() {
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
    fn sums_are_needed_until_all_ranges_are_decided_or_the_file_has_failed() {
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
    fn late_gap_keeps_other_ranges_of_a_failed_file() {
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
}
