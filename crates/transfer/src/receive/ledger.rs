//! What has been listed and is not in place yet, and what has become of the rest.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use lighthaul_io::fs::version::Look;

use super::journal::{Journal, Record};
use super::links::{Links, Name, Whereabouts};
use crate::digest::{self, Digest};
use crate::error::{Code, Error};
use crate::manifest::{Entry, Kind, WINDOW};
use crate::message::{Failure, Span, Verdict};
use crate::object::Piece;

/// A file that is on its way.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) number: u64,
    pub(crate) entry: Entry,
    /// Its name until it is published.
    pub(crate) temporary: PathBuf,
    /// Where its journal is, if it has one.
    pub(crate) journal: PathBuf,
    /// A later run can go on with it.
    pub(crate) resumable: bool,
    fill: Mutex<Fill>,
}

/// How much of a file is there.
#[derive(Debug, Default)]
pub(crate) struct Fill {
    /// Ranges that were wanted, and that no object has brought yet.
    owed: Vec<Span>,
    /// What an earlier run noted in the journal.
    pub(crate) held: Vec<Record>,
    /// Ranges of it that have not been compared with the source.
    uncompared: Vec<Span>,
    /// The digest for those.
    held_digest: digest::Kind,
    /// Bytes that have not been compared with the source in this run.
    pub(crate) unproved: u64,
    /// Device and number of the temporary file's inode, once it is open.
    pub(crate) inode: Option<(u64, u64)>,
    /// The digest of each range that was compared, if the target is to be read once more.
    pub(crate) digests: Vec<(Span, Digest)>,
    /// The temporary file is there.
    pub(crate) created: bool,
    /// It has its mode and time, and all else that is kept.
    pub(crate) finished: bool,
    pub(crate) journal: Option<Journal>,
    /// Nothing more is done about it.
    pub(crate) failed: bool,
}

impl Pending {
    pub(crate) fn new(
        number: u64,
        entry: Entry,
        (temporary, journal): (PathBuf, PathBuf),
        resumable: bool,
    ) -> Self {
        Self {
            number,
            entry,
            temporary,
            journal,
            resumable,
            fill: Mutex::default(),
        }
    }

    /// The folder that it is in until it is published, if that is one of its own.
    pub(crate) fn apart(&self) -> Option<&Path> {
        let folder = self.temporary.parent();
        folder.filter(|_| folder != self.entry.path().parent())
    }

    /// It is written where it will stay.
    pub(crate) fn is_in_place(&self) -> bool {
        self.temporary == self.entry.path()
    }

    pub(crate) fn fill(&self) -> MutexGuard<'_, Fill> {
        self.fill.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How its source looked when it was listed.
    pub(crate) const fn look(&self) -> Look {
        Look {
            size: self.entry.size(),
            seconds: self.entry.seconds,
            nanos: self.entry.nanos,
        }
    }

    /// Expects these ranges.
    pub(crate) fn expect(&self, owed: Vec<Span>) {
        let mut fill = self.fill();
        fill.unproved += bytes(&owed);
        fill.owed = owed;
    }

    /// Expects a digest of each of the ranges in `held`, which are there as `records` say.
    pub(crate) fn expect_digests(&self, held: &[Span], digest: digest::Kind, records: Vec<Record>) {
        let mut fill = self.fill();
        fill.unproved += bytes(held);
        fill.uncompared = held.to_vec();
        fill.held_digest = digest;
        fill.held = records;
    }

    /// The digest by which ranges that are there are compared.
    pub(crate) fn held_digest(&self) -> digest::Kind {
        self.fill().held_digest
    }

    /// Whether the sender may still send bytes or digests of it.
    fn is_awaited(&self) -> bool {
        let fill = self.fill();
        !fill.owed.is_empty() || !fill.uncompared.is_empty()
    }

    /// Bytes that are to come.
    fn owed(&self) -> u64 {
        bytes(&self.fill().owed)
    }

    /// Takes note that a part of a range that is there is about to be compared; answers whether it was expected.
    fn compare(&self, span: Span) -> bool {
        take_out(&mut self.fill().uncompared, span)
    }

    /// Wants a range after all that was thought to be there; answers false for a file that has failed.
    pub(crate) fn owe(&self, span: Span) -> bool {
        let mut fill = self.fill();
        if !fill.failed {
            fill.owed.push(span);
        }
        !fill.failed
    }

    /// Takes note that `piece` is about to come; answers whether it was expected.
    fn announce(&self, piece: &Piece) -> bool {
        take_out(&mut self.fill().owed, (piece.offset, piece.end()))
    }
}

/// Ranges of one file that may be open: an honest sender takes them from the front, and breaks none in many.
const SPANS_MAX: usize = 1 << 17;

/// Takes `part` out of `spans`; answers whether it was in one of them.
fn take_out(spans: &mut Vec<Span>, part: Span) -> bool {
    if spans.len() > SPANS_MAX {
        return false;
    }
    let holds = |span: &Span| span.0 <= part.0 && part.0 < part.1 && part.1 <= span.1;
    let Some(index) = spans.iter().position(holds) else {
        return false;
    };
    let (from, till) = spans.remove(index);
    if part.1 < till {
        spans.insert(index, (part.1, till));
    }
    if from < part.0 {
        spans.insert(index, (from, part.0));
    }
    true
}

fn bytes(spans: &[Span]) -> u64 {
    spans.iter().map(|(from, till)| till - from).sum()
}

impl Book {
    /// One more entry is in place, or has failed.
    const fn settle(&mut self) {
        self.settled += 1;
        self.open = self.open.saturating_sub(1);
    }
}

/// Shared by the threads of a receiver.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    book: Mutex<Book>,
    /// Hears of files that are in place, if their hashes are wanted.
    in_place: OnceLock<SyncSender<PathBuf>>,
}

#[derive(Debug, Default)]
struct Book {
    pending: BTreeMap<u64, Arc<Pending>>,
    /// Files that have failed, and of which more may come.
    failed: BTreeMap<u64, Arc<Pending>>,
    /// Folders that get their modes and times when all before them is in place.
    leaving: VecDeque<(u64, Entry)>,
    links: Links,
    verdict: Verdict,
    wanted: u64,
    /// Entries that are listed and not settled.
    open: u64,
    /// What the sender has not heard yet.
    settled: u64,
    failures: Vec<Failure>,
    /// The one file whose bytes must come to something.
    expected: PathBuf,
    /// The list is complete.
    listed: bool,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells `listener` of every file that is in place from now on, before or by this transfer.
    pub(crate) fn tell_files(&self, listener: SyncSender<PathBuf>) {
        self.in_place.set(listener).ok();
    }

    /// So many more entries have been listed, which must not be more than the peer may list at a time.
    pub(crate) fn list(&self, entries: u64) -> Result<(), Error> {
        let mut book = self.lock();
        book.open += entries;
        if book.open > WINDOW {
            let text = "the peer lists more than it may before anything is in place";
            return Err(Error::new(Code::Protocol, text));
        }
        Ok(())
    }

    /// A file is on its way.
    pub(crate) fn expect(&self, pending: Pending) {
        let mut book = self.lock();
        book.wanted = book.wanted.saturating_add(pending.owed());
        book.pending.insert(pending.number, Arc::new(pending));
    }

    /// So many bytes more must come, since they are not what the source has.
    pub(crate) fn want_more(&self, bytes: u64) {
        let mut book = self.lock();
        book.wanted = book.wanted.saturating_add(bytes);
    }

    /// The file of a range that is there and that the sender has digested, which must have been asked for.
    pub(crate) fn compare(&self, number: u64, span: Span) -> Result<Arc<Pending>, Error> {
        let book = self.lock();
        let file = book.pending.get(&number);
        let file = file.or_else(|| book.failed.get(&number));
        let file = file.filter(|file| file.compare(span)).cloned();
        file.ok_or_else(|| {
            let text = "the peer sends a digest that nobody asked for";
            Error::new(Code::Protocol, text)
        })
    }

    /// It is known what the bytes of `entry` must come to.
    pub(crate) fn expect_of(&self, entry: &Entry) {
        entry.path().clone_into(&mut self.lock().expected);
    }

    /// The one file whose bytes must come to something.
    pub(crate) fn expected(&self) -> PathBuf {
        self.lock().expected.clone()
    }

    /// A folder has been listed to its end.
    pub(crate) fn leave(&self, number: u64, entry: Entry) {
        self.lock().leaving.push_back((number, entry));
    }

    /// More names may come for the file `entry`, so many.
    pub(crate) fn begin_links(&self, number: u64, entry: &Entry, left: u64) {
        self.lock().links.begin(number, entry, left);
    }

    /// A file is the same as entry `first`; answers whether that is known, so that it can wait for it.
    pub(crate) fn link(&self, first: u64, name: Name) -> bool {
        self.lock().links.wait(first, name)
    }

    /// The next name that can be given to a file that has one, or has failed.
    pub(crate) fn take_link(&self) -> Option<(Name, Whereabouts)> {
        self.lock().links.next()
    }

    /// There will be no more entries.
    pub(crate) fn close(&self) {
        self.lock().listed = true;
    }

    /// Whether there will be no more entries.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().listed
    }

    /// Entry `number` is in place, perhaps since before, or never will be.
    pub(crate) fn settle(&self, number: u64, entry: &Entry, result: Result<Settled, Error>) {
        if let (Ok(_), Kind::File(_), Some(listener)) = (&result, &entry.kind, self.in_place.get())
        {
            // a listener that is gone has said why
            listener.send(entry.path().to_owned()).ok();
        }
        let mut book = self.lock();
        book.links.settle(
            number,
            result.as_ref().map(drop).map_err(|error| error.code as u8),
        );
        if let Some(file) = book.pending.remove(&number)
            && file.is_awaited()
        {
            book.failed.insert(number, file);
        }
        book.settle();
        match result {
            Ok(settled) => {
                if entry.kind != Kind::Leave {
                    book.verdict.entries += 1;
                    book.verdict.bytes = book.verdict.bytes.saturating_add(entry.size());
                    book.verdict.unchanged += u64::from(settled == Settled::Before);
                }
            }
            Err(error) => book.failures.push(Failure {
                number,
                path: entry.path.clone(),
                code: error.code as u8,
                why: error.text,
            }),
        }
    }

    /// An entry is not in place for a reason that was given before.
    pub(crate) fn pass_over(&self) {
        self.lock().settle();
    }

    /// How many entries have been settled, and how many of them failed, since the last time.
    pub(crate) fn take_news(&self) -> (u64, Vec<Failure>) {
        let mut book = self.lock();
        (
            std::mem::take(&mut book.settled),
            std::mem::take(&mut book.failures),
        )
    }

    /// The next folder of which everything is in place.
    pub(crate) fn take_left(&self) -> Option<(u64, Entry)> {
        let mut book = self.lock();
        let pending = book.pending.first_key_value().map(|(number, _)| *number);
        let open = pending.into_iter().chain(book.links.first_open());
        let first = open.min().unwrap_or(u64::MAX);
        let ready = book
            .leaving
            .front()
            .is_some_and(|(number, _)| *number <= first);
        if ready {
            book.leaving.pop_front()
        } else {
            None
        }
    }

    /// The files of an object's pieces, which must have been asked for.
    pub(crate) fn announce(&self, pieces: &[Piece]) -> Result<Vec<Arc<Pending>>, Error> {
        let book = self.lock();
        let file = |piece: &Piece| {
            let file = book
                .pending
                .get(&piece.entry)
                .or_else(|| book.failed.get(&piece.entry))?;
            file.announce(piece).then(|| Arc::clone(file))
        };
        let files = pieces.iter().map(file).collect::<Option<Vec<_>>>();
        files.ok_or_else(|| Error::new(Code::Protocol, "the peer sends what nobody asked for"))
    }

    /// Entry `number`, if it is a file that is not in place.
    pub(crate) fn find(&self, number: u64) -> Option<Arc<Pending>> {
        self.lock().pending.get(&number).cloned()
    }

    /// Whether everything that was listed is in place or has failed, and nothing more of it can come.
    pub(crate) fn is_complete(&self) -> bool {
        let book = self.lock();
        book.listed && book.pending.is_empty() && book.failed.is_empty()
    }

    /// Whether everything is in place that was listed, or has failed, and nothing more will be listed.
    pub(crate) fn is_settled(&self) -> bool {
        let book = self.lock();
        book.listed && book.open == 0
    }

    /// What is in place.
    pub(crate) fn verdict(&self) -> Verdict {
        self.lock().verdict
    }

    /// Bytes that were asked for.
    pub(crate) fn wanted(&self) -> u64 {
        self.lock().wanted
    }

    /// Files that are not in place.
    pub(crate) fn pending(&self) -> Vec<Arc<Pending>> {
        self.lock().pending.values().cloned().collect()
    }
}

/// Since when an entry is in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It was as it should be.
    Before,
    /// This transfer put it there.
    Now,
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use proptest::prelude::*;

    use super::*;

    fn file(number: u64, size: u64) -> Entry {
        Entry {
            kind: Kind::File(size),
            ..Entry::gone(number.to_string().into_bytes())
        }
    }

    /// A file of which these ranges are wanted.
    fn pending(number: u64, owed: &[Span]) -> Pending {
        let names = (PathBuf::from("part"), PathBuf::new());
        let pending = Pending::new(number, file(number, 100), names, false);
        pending.expect(owed.to_vec());
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
        Error::new(Code::Io, "cannot write")
    }

    #[test]
    fn temporary_file_is_apart_only_in_a_folder_of_its_own() {
        for (temporary, apart, in_place) in [
            ("a/.part", None, false),
            ("a/.parts/b", Some("a/.parts"), false),
            ("a/b", None, true),
        ] {
            let entry = Entry::gone(b"a/b".to_vec());
            let names = (temporary.into(), PathBuf::new());
            let pending = Pending::new(0, entry, names, false);
            assert_eq!(pending.apart(), apart.map(Path::new));
            assert_eq!(pending.is_in_place(), in_place);
        }
    }

    #[test]
    fn only_what_was_asked_for_may_come_and_once() {
        let ledger = Ledger::default();
        ledger.expect(pending(1, &[(0, 50), (60, 100)]));
        ledger.expect(pending(2, &[(0, 10)]));
        assert_eq!(ledger.wanted(), 100);
        assert_eq!(ledger.find(1).unwrap().fill().unproved, 90);
        let numbers = |files: Vec<Arc<Pending>>| -> Vec<u64> {
            files.iter().map(|file| file.number).collect()
        };
        let files = ledger.announce(&[piece(1, (10, 50)), piece(2, (0, 10))]);
        assert_eq!(numbers(files.unwrap()), [1, 2]);
        for refused in [piece(1, (10, 20)), piece(1, (50, 60)), piece(3, (0, 1))] {
            let error = ledger.announce(&[refused]).unwrap_err();
            assert_eq!(error.code, Code::Protocol);
        }
        ledger.announce(&[piece(1, (0, 10))]).unwrap();
        // a range that is not what the source has is wanted after all
        let file = ledger.find(1).unwrap();
        assert!(file.owe((10, 20)));
        ledger.want_more(10);
        assert_eq!(ledger.wanted(), 110);
        ledger.announce(&[piece(1, (10, 20))]).unwrap();
        file.fill().failed = true;
        assert!(!file.owe((10, 20)));
        ledger.announce(&[piece(1, (10, 20))]).unwrap_err();
        assert_eq!(numbers(ledger.pending()), [1, 2]);
        assert!(ledger.find(3).is_none());
    }

    #[test]
    fn only_digests_that_were_asked_for_are_compared() {
        let ledger = Ledger::default();
        let file = pending(1, &[]);
        file.expect_digests(&[(0, 50)], digest::Kind::Blake3, Vec::new());
        assert_eq!(file.held_digest(), digest::Kind::Blake3);
        assert_eq!(file.fill().unproved, 50);
        ledger.expect(file);
        assert_eq!(ledger.compare(1, (0, 20)).unwrap().number, 1);
        for (number, span) in [(1, (0, 20)), (1, (40, 60)), (2, (0, 1))] {
            let error = ledger.compare(number, span).unwrap_err();
            assert_eq!(error.code, Code::Protocol);
        }
        // of a file that fails more may be on its way
        let failed = ledger.find(1).unwrap();
        ledger.settle(1, &failed.entry, Err(failure()));
        assert!(ledger.find(1).is_none());
        ledger.compare(1, (20, 50)).unwrap();
    }

    /// A copy is complete when nothing more can come, and settled when nothing is left to be put in place.
    #[test]
    fn copy_is_complete_when_nothing_more_can_come() {
        for (owed, held, more) in [
            (vec![], vec![], false),
            (vec![(0, 9)], vec![], true),
            (vec![], vec![(0, 9)], true),
            (vec![(0, 9)], vec![(9, 20)], true),
        ] {
            let ledger = Ledger::default();
            ledger.list(1).unwrap();
            let file = pending(0, &owed);
            file.expect_digests(&held, digest::Kind::Crc128, Vec::new());
            let entry = file.entry.clone();
            ledger.expect(file);
            assert!(!ledger.is_complete() && !ledger.is_closed());
            ledger.close();
            assert!(!ledger.is_complete() && ledger.is_closed() && !ledger.is_settled());
            ledger.settle(0, &entry, Err(failure()));
            assert_eq!(ledger.is_complete(), !more);
            assert!(ledger.is_settled());
            let announced = ledger.announce(&[piece(0, (0, 1))]);
            assert_eq!(announced.is_ok(), owed == [(0, 9)]);
        }
        // before the list has ended nothing is
        let ledger = Ledger::default();
        assert!(!ledger.is_complete() && !ledger.is_settled());
        ledger.expect(pending(0, &[]));
        ledger.close();
        assert!(!ledger.is_complete());
    }

    #[test]
    fn peer_lists_no_more_than_may_be_open() {
        let ledger = Ledger::default();
        ledger.list(WINDOW - 1).unwrap();
        ledger.list(1).unwrap();
        ledger.pass_over();
        ledger.settle(0, &file(0, 1), Ok(Settled::Now));
        ledger.list(2).unwrap();
        assert_eq!(ledger.list(1).unwrap_err().code, Code::Protocol);
    }

    #[test]
    fn verdict_counts_what_is_in_place() {
        let ledger = Ledger::default();
        let (listener, heard) = sync_channel(9);
        ledger.tell_files(listener);
        ledger.settle(0, &file(0, 10), Ok(Settled::Now));
        ledger.settle(1, &file(1, 20), Ok(Settled::Before));
        ledger.settle(2, &file(2, 40), Err(failure()));
        let folder = |kind| Entry { kind, ..file(3, 0) };
        ledger.settle(3, &folder(Kind::Folder), Ok(Settled::Before));
        ledger.settle(4, &folder(Kind::Leave), Ok(Settled::Now));
        ledger.pass_over();
        let verdict = Verdict {
            entries: 3,
            bytes: 30,
            unchanged: 2,
        };
        assert_eq!(ledger.verdict(), verdict);
        let (settled, failures) = ledger.take_news();
        assert_eq!((settled, failures.len()), (6, 1));
        assert_eq!((failures[0].number, failures[0].code), (2, Code::Io as u8));
        assert_eq!(ledger.take_news(), (0, Vec::new()), "it is told once");
        let heard: Vec<_> = heard.try_iter().collect();
        assert_eq!(heard, [PathBuf::from("0"), PathBuf::from("1")]);
        ledger.expect_of(&file(7, 1));
        assert_eq!(ledger.expected(), Path::new("7"));
    }

    #[test]
    fn folder_ends_when_all_before_it_is_in_place() {
        let ledger = Ledger::default();
        ledger.expect(pending(2, &[]));
        ledger.begin_links(0, &file(0, 1), 1);
        ledger.leave(1, folder_end());
        ledger.leave(5, folder_end());
        let left = |ledger: &Ledger| ledger.take_left().map(|(number, _)| number);
        assert_eq!(left(&ledger), Some(1));
        assert_eq!(left(&ledger), None, "a file before it is on its way");
        let name = Name {
            number: 4,
            entry: file(4, 1),
            temporary: PathBuf::new(),
        };
        assert!(ledger.link(0, name));
        ledger.settle(2, &file(2, 1), Ok(Settled::Now));
        assert_eq!(left(&ledger), None, "a further name waits for its file");
        assert!(ledger.take_link().is_none());
        ledger.settle(0, &file(0, 1), Ok(Settled::Now));
        let (name, first) = ledger.take_link().unwrap();
        assert_eq!((name.number, first), (4, Ok(b"0".to_vec())));
        ledger.settle(4, &name.entry, Ok(Settled::Now));
        assert_eq!(left(&ledger), Some(5));
        assert_eq!(left(&ledger), None);
    }

    fn folder_end() -> Entry {
        Entry {
            kind: Kind::Leave,
            ..file(9, 0)
        }
    }

    #[test]
    fn spans_beyond_a_bound_are_refused() {
        let count = SPANS_MAX as u64;
        let mut spans: Vec<Span> = (0..count).map(|nth| (4 * nth, 4 * nth + 3)).collect();
        assert!(take_out(&mut spans, (1, 2)));
        assert_eq!(spans.len(), SPANS_MAX + 1);
        assert!(
            !take_out(&mut spans, (4, 5)),
            "one sender breaks no file in so many"
        );
    }

    proptest! {
        #[test]
        fn what_is_taken_out_was_in_one_range(
            cuts in prop::collection::btree_set(0_u64..60, 0..12),
            parts in prop::collection::vec((0_u64..60, 0_u64..9), 1..20),
        ) {
            let cuts: Vec<u64> = cuts.into_iter().collect();
            let pairs = cuts.chunks_exact(2);
            let mut spans: Vec<Span> = pairs.map(|pair| (pair[0], pair[1])).collect();
            for (from, len) in parts {
                let part = (from, from + len);
                let within = |byte: &u64, spans: &[Span]| spans.iter().any(|(f, t)| (*f..*t).contains(byte));
                let before = spans.clone();
                let fits = len > 0 && (part.0..part.1).all(|byte| within(&byte, &before));
                // ranges that touch are two: what lies in both is in neither
                let one = before.iter().any(|(f, t)| *f <= part.0 && part.1 <= *t);
                prop_assert_eq!(take_out(&mut spans, part), fits && one);
                for byte in 0..70 {
                    let taken = fits && one && (part.0..part.1).contains(&byte);
                    prop_assert_eq!(within(&byte, &spans), within(&byte, &before) && !taken);
                }
                prop_assert!(spans.iter().all(|(f, t)| f < t));
                prop_assert!(spans.is_sorted());
                prop_assert_eq!(bytes(&spans), (0..70).filter(|byte| within(byte, &spans)).count() as u64);
            }
        }
    }
}
