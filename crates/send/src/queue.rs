//! Queue of the sender: listed entries, requested ranges, and the objects that combine them.
//!
//! ```text
//! listed -> in place or failed at the receiver ---------------------------> settled
//!     \---> requested ranges -> object of a lane -> result of the receiver -> settled
//!     |---> held ranges -> digests compared -> equal, or requested
//!     \---> ranges with a basis -> copies compared -> equal, or requested
//! ```
//!
//! Bounded windows of unsettled entries, ranges and digests make the list wait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use lighthaul_copy::contents;
use lighthaul_copy::delta_message::Sums;
use lighthaul_copy::error::Fault;
use lighthaul_copy::message::{COMPARED_MAX, Compared, UNANSWERED_MAX, WantedFile, WantedFiles};
use lighthaul_copy::thread_group::{CHECK_INTERVAL, ThreadGroup};
use lighthaul_copy::watch::CurrentFile;
use lighthaul_files::delta::stretch::Copied;
use lighthaul_files::digest::DigestKind;
use lighthaul_files::manifest::WINDOW;
use lighthaul_files::object::{LARGE, Layout, PIECES_MAX, Piece, Span};
use lighthaul_session::error::Error;
use lighthaul_session::fault::PeerFault;

use super::deltas::{DeltaFile, Deltas, Taken};
use super::item::Item;

/// Maximum number of ranges that wait to be sent: one of each entry, and more for a few resumed files.
const READY_MAX: usize = 1 << 20;
/// Maximum number of ranges of all files that wait to be compared.
const HELD_MAX: usize = 1 << 20;
/// Ranges that wait to be sent while no more gaps of deltas are added.
const READY_GAPS: usize = 1 << 15;
/// Alignment of the parts of large files.
const GRAIN: u64 = 1 << 20;

/// Range that the receiver holds from an earlier run, or copies from a basis.
#[derive(Clone, Debug)]
pub(crate) struct HeldRange {
    pub(crate) piece: Piece,
    pub(crate) item: Arc<Item>,
    /// Kind of the digest that is compared.
    pub(crate) digest: DigestKind,
    /// Parts that the receiver copies; empty for a range that it holds.
    pub(crate) copies: Vec<Copied>,
}

/// Object for a lane.
#[derive(Debug)]
pub(crate) struct PlannedObject {
    pub(crate) number: u64,
    pub(crate) layout: Layout,
    /// Files of the pieces.
    pub(crate) items: Vec<Arc<Item>>,
}

/// Terms of the next object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectTerms {
    /// Approximate length in bytes.
    pub(crate) len: u64,
    /// Lanes that may send objects for the first time.
    pub(crate) turns: usize,
    /// Objects at a time that have not left this host or its circuit.
    pub(crate) unsent_max: usize,
}

impl PlannedObject {
    /// Returns the file at `position` in the object, for the observer.
    pub(crate) fn file_at(&self, position: u64) -> Option<CurrentFile> {
        let (index, at) = self.layout.piece_at(position)?;
        let (piece, item) = (self.layout.pieces().get(index)?, self.items.get(index)?);
        let done = piece.offset.saturating_add(at);
        Some(CurrentFile::new(&item.place, done, item.size))
    }
}

/// Counts of a copy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Number of listed entries.
    pub(crate) entries: u64,
    /// Number of bytes of their files.
    pub(crate) bytes: u64,
    /// Requested bytes.
    pub(crate) wanted: u64,
    /// Entries that are in place or have failed.
    pub(crate) settled: u64,
    /// Objects that lanes have taken.
    pub(crate) objects: u64,
}

#[derive(Debug, Default)]
struct QueueState {
    /// Files that the receiver has not answered.
    items: BTreeMap<u64, Arc<Item>>,
    /// Ranges to send.
    ready: VecDeque<(Piece, Arc<Item>)>,
    /// Ranges to compare.
    held: VecDeque<HeldRange>,
    /// Ranges with sent but unanswered digests, by file and offset.
    unanswered: BTreeMap<(u64, u64), HeldRange>,
    deltas: Deltas,
    totals: Totals,
    /// Entries that the receiver has answered.
    answered: u64,
    listed: bool,
    /// Lanes that send an object for the first time.
    blasting: usize,
    /// Objects that lanes have taken, and that have not left this host or its circuit.
    unsent: usize,
}

impl QueueState {
    /// Returns true if the receiver has answered all entries of the complete list.
    const fn are_entries_answered(&self) -> bool {
        self.listed && self.answered == self.totals.entries
    }

    /// Returns true if the receiver has answered all entries and compared all ranges, and no delta is left.
    fn is_answered(&self) -> bool {
        let is_compared = self.held.is_empty() && self.unanswered.is_empty();
        self.are_entries_answered() && is_compared && self.deltas.is_empty()
    }

    /// Adds the requested and held ranges of a file.
    fn want(&mut self, item: &Arc<Item>, wanted: WantedFile) -> Result<(), Error> {
        let size = item.size;
        let held = in_order(&wanted.held, size)?;
        let send = wanted.send.unwrap_or_else(|| vec![(0, size)]);
        let send = in_order(&send, size)?;
        let piece = |(from, till): Span| Piece {
            entry: wanted.number,
            offset: from,
            len: till - from,
        };
        match wanted.basis {
            Some(basis) => self.deltas.push(DeltaFile {
                number: wanted.number,
                item: Arc::clone(item),
                spans: send.to_vec(),
                basis,
            }),
            None => self.send(wanted.number, item, send.iter().copied()),
        }
        self.held.extend(held.iter().map(|span| HeldRange {
            piece: piece(*span),
            item: Arc::clone(item),
            digest: wanted.digest.or_default(),
            copies: Vec::new(),
        }));
        // ranges that wait for deltas may become ready all at once
        let ready = self.ready.len() + self.deltas.spans();
        if ready > READY_MAX || self.held.len() > HELD_MAX {
            return Err(not_offered());
        }
        Ok(())
    }

    /// Adds ranges of a file to send.
    fn send(&mut self, number: u64, item: &Arc<Item>, spans: impl Iterator<Item = Span>) {
        for (from, till) in spans {
            let piece = Piece {
                entry: number,
                offset: from,
                len: till - from,
            };
            self.totals.wanted += piece.len;
            self.ready.push_back((piece, Arc::clone(item)));
        }
    }

    /// Returns true if another lane may take an object.
    const fn admits(&self, terms: &ObjectTerms) -> bool {
        self.blasting < terms.turns && self.unsent < terms.unsent_max
    }

    /// Returns the next part of a held range, at most [`COMPARED_MAX`] bytes.
    fn next_held(&mut self) -> Option<HeldRange> {
        let mut held = self.held.pop_front()?;
        let rest = held.piece.len.saturating_sub(COMPARED_MAX);
        if rest > 0 {
            let mut left = held.clone();
            left.piece.offset += COMPARED_MAX;
            left.piece.len = rest;
            self.held.push_front(left);
            held.piece.len = COMPARED_MAX;
        }
        Some(held)
    }

    /// Removes files that were not requested.
    fn drop_items(&mut self, numbers: std::ops::Range<u64>) {
        let unwanted: Vec<u64> = self
            .items
            .range(numbers)
            .map(|(number, _)| *number)
            .collect();
        for number in unwanted {
            self.items.remove(&number);
        }
    }
}

/// Queue that the thread of the list, the thread of its answers, and the lanes share.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &self,
        threads: &ThreadGroup,
        state: MutexGuard<'a, QueueState>,
    ) -> Result<MutexGuard<'a, QueueState>, Error> {
        threads.check()?;
        let waited = self.changed.wait_timeout(state, CHECK_INTERVAL);
        Ok(waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Returns the present counts.
    pub(crate) fn totals(&self) -> Totals {
        self.lock().totals
    }

    /// Returns the requested bytes, once all entries are answered, unless a delta is in progress. All of a file that
    /// waits for its delta counts.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let state = self.lock();
        let waiting = state.deltas.waiting_bytes();
        let bytes = waiting.map(|bytes| state.totals.wanted.saturating_add(bytes));
        bytes.filter(|_| state.are_entries_answered())
    }

    /// Adds an entry, with its item if it is a file. Waits while the window of unsettled entries is
    /// full.
    pub(crate) fn list(&self, threads: &ThreadGroup, item: Option<Item>) -> Result<(), Error> {
        let mut state = self.lock();
        while state.totals.entries - state.totals.settled >= WINDOW {
            state = self.wait(threads, state)?;
        }
        let number = state.totals.entries;
        state.totals.entries += 1;
        if let Some(item) = item {
            state.totals.bytes = state.totals.bytes.saturating_add(item.size);
            state.items.insert(number, Arc::new(item));
        }
        Ok(())
    }

    /// Returns the bytes of all listed files, once the list is complete.
    pub(crate) fn listed_bytes(&self) -> Option<u64> {
        let state = self.lock();
        state.listed.then_some(state.totals.bytes)
    }

    /// Returns true if bytes may have to be sent, and false if the receiver wants no more bytes. Waits a moment if
    /// neither is known.
    pub(crate) fn await_wanted(&self, threads: &ThreadGroup) -> Result<Option<bool>, Error> {
        let look = |state: &QueueState| {
            let is_wanted = !state.ready.is_empty() || state.deltas.has_waiting();
            (is_wanted || state.is_answered()).then_some(is_wanted)
        };
        let state = self.lock();
        match look(&state) {
            None => Ok(look(&*self.wait(threads, state)?)),
            known => Ok(known),
        }
    }

    /// Records the end of the list.
    pub(crate) fn close(&self) {
        self.lock().listed = true;
        self.changed.notify_all();
    }

    /// Returns true if the receiver has answered all entries of the complete list.
    pub(crate) fn are_entries_answered(&self) -> bool {
        self.lock().are_entries_answered()
    }

    /// Returns true if the receiver has answered all entries and compared all ranges, and no delta is left.
    pub(crate) fn is_answered(&self) -> bool {
        self.lock().is_answered()
    }

    /// Waits a moment, then returns the number of entries that the receiver has answered.
    pub(crate) fn answered(&self, threads: &ThreadGroup) -> Result<u64, Error> {
        Ok(self.wait(threads, self.lock())?.answered)
    }

    /// Adds the answer of the receiver about the next entries.
    pub(crate) fn want(&self, wanted: WantedFiles) -> Result<(), Error> {
        let mut state = self.lock();
        let from = state.answered;
        let till = from
            .checked_add(wanted.entries)
            .filter(|till| *till <= state.totals.entries);
        let till = till.ok_or_else(not_offered)?;
        let taken = state.totals.wanted.checked_add(wanted.taken);
        let taken = taken.filter(|_| wanted.taken <= contents::BYTES_MAX as u64);
        state.totals.wanted = taken.ok_or_else(not_offered)?;
        let mut next = from;
        for file in wanted.files {
            let number = file.number;
            let item = state.items.get(&number);
            let item = item.filter(|_| (next..till).contains(&number)).cloned();
            let item = item.ok_or_else(not_offered)?;
            state.want(&item, file)?;
            state.drop_items(next..number + 1);
            next = number + 1;
        }
        state.drop_items(next..till);
        state.answered = till;
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Returns the next held range whose digest must be sent, or none at the end. Waits while too
    /// many digests are unanswered.
    pub(crate) fn take_held(&self, threads: &ThreadGroup) -> Result<Option<HeldRange>, Error> {
        let mut state = self.lock();
        loop {
            let has_room = state.unanswered.len() < UNANSWERED_MAX;
            if let Some(held) = has_room.then(|| state.next_held()).flatten() {
                let key = (held.piece.entry, held.piece.offset);
                state.unanswered.insert(key, held.clone());
                return Ok(Some(held));
            }
            if state.are_entries_answered() && state.held.is_empty() {
                return Ok(None);
            }
            state = self.wait(threads, state)?;
        }
    }

    /// Waits until a delta may begin; see [`Deltas::next`]. Returns false if none can come.
    pub(super) fn await_delta(
        &self,
        threads: &ThreadGroup,
        blocks: impl Fn(&DeltaFile) -> usize,
        blocks_max: usize,
    ) -> Result<bool, Error> {
        let mut state = self.lock();
        loop {
            if state.deltas.can_begin(&blocks, blocks_max) {
                return Ok(true);
            }
            if state.are_entries_answered() && !state.deltas.has_waiting() {
                return Ok(false);
            }
            state = self.wait(threads, state)?;
        }
    }

    /// Begins the next file that waits for its delta; see [`Deltas::next`].
    pub(super) fn next_delta(
        &self,
        blocks: impl Fn(&DeltaFile) -> usize,
        blocks_max: usize,
    ) -> Option<(DeltaFile, usize)> {
        self.lock().deltas.next(blocks, blocks_max)
    }

    /// Adds sums that the receiver has sent.
    pub(super) fn receive_sums(&self, sums: &Sums) -> Result<(), Error> {
        self.lock().deltas.receive(sums)?;
        self.changed.notify_all();
        Ok(())
    }

    /// Takes the sums of a file, if at least `count` have arrived, or no more come.
    pub(super) fn take_sums(&self, number: u64, count: usize) -> Option<Taken> {
        self.lock().deltas.take(number, count)
    }

    /// Waits a moment, then takes the sums of a file like [`Self::take_sums`].
    pub(super) fn await_sums(
        &self,
        threads: &ThreadGroup,
        number: u64,
        count: usize,
    ) -> Result<Option<Taken>, Error> {
        let mut state = self.wait(threads, self.lock())?;
        Ok(state.deltas.take(number, count))
    }

    /// Records a stretch before the receiver gets it. Waits while too many are unanswered, or too many ranges wait to
    /// be sent. Returns false if the file has failed.
    pub(super) fn begin_stretch(
        &self,
        threads: &ThreadGroup,
        stretch: HeldRange,
    ) -> Result<bool, Error> {
        let mut state = self.lock();
        while state.unanswered.len() >= UNANSWERED_MAX || state.ready.len() >= READY_GAPS {
            if state.deltas.has_failed(stretch.piece.entry) {
                return Ok(false);
            }
            state = self.wait(threads, state)?;
        }
        let Piece { entry, offset, .. } = stretch.piece;
        // a failed file gets no message, and therefore no answer
        if state.deltas.has_failed(entry) {
            return Ok(false);
        }
        if !stretch.copies.is_empty() {
            state.unanswered.insert((entry, offset), stretch);
        }
        Ok(true)
    }

    /// Sends ranges of a file, after the receiver was informed about them.
    pub(super) fn send_gaps(&self, file: &DeltaFile, gaps: &[Span]) {
        let mut state = self.lock();
        if !state.deltas.has_failed(file.number) {
            state.send(file.number, &file.item, gaps.iter().copied());
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Returns true if no range waits to be sent.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().ready.is_empty()
    }

    /// Records that the search of a file has ended.
    pub(super) fn end_delta(&self, number: u64) {
        self.lock().deltas.end(number);
        self.changed.notify_all();
    }

    /// Handles the result of comparing a range. A range that differs, or all copies in it, are sent. Returns the bytes
    /// of these copies.
    pub(crate) fn compared(&self, compared: Compared) -> Result<u64, Error> {
        let mut state = self.lock();
        let (from, till) = compared.span;
        let held = state.unanswered.remove(&(compared.entry, from));
        let held = held.filter(|held| held.piece.end() == till);
        let held = held.ok_or_else(not_offered)?;
        let copies = if compared.wanted {
            held.copies
        } else {
            Vec::new()
        };
        if !copies.is_empty() {
            let spans = copies.iter().map(|copied| copied.span());
            state.send(compared.entry, &held.item, spans);
        } else if compared.wanted {
            state.send(compared.entry, &held.item, [compared.span].into_iter());
        }
        drop(state);
        self.changed.notify_all();
        Ok(copies.iter().map(|copied| copied.len).sum())
    }

    /// Lets another lane start, since an object was sent for the first time.
    pub(crate) fn pass_turn(&self) {
        self.lock().blasting -= 1;
        self.changed.notify_all();
    }

    /// Records that an object has left this host, or its circuit.
    pub(crate) fn count_sent(&self) {
        self.lock().unsent -= 1;
        self.changed.notify_all();
    }

    /// Returns true if all bytes that the receiver wants have left this host, or the circuit.
    pub(crate) fn is_sent(&self) -> bool {
        let state = self.lock();
        state.unsent == 0 && state.ready.is_empty() && state.is_answered()
    }

    /// Counts settled entries. The entries in `failed` have failed, so nothing more of them is
    /// sent.
    pub(crate) fn settle(
        &self,
        entries: u64,
        failed: impl Iterator<Item = u64>,
    ) -> Result<(), Error> {
        let failed: BTreeSet<u64> = failed.collect();
        let mut state = self.lock();
        if !failed.is_empty() {
            state
                .ready
                .retain(|(piece, _)| !failed.contains(&piece.entry));
            state
                .held
                .retain(|held| !failed.contains(&held.piece.entry));
            state.deltas.fail(&failed);
        }
        let settled = state.totals.settled.checked_add(entries);
        let settled = settled.filter(|settled| *settled <= state.totals.entries);
        state.totals.settled = settled.ok_or(PeerFault::Invalid(
            "a count of entries that exceeds the list",
        ))?;
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Returns the next object by the present `terms`, or none at the end. Waits while as many lanes as
    /// may do so are sending theirs for the first time, or have one.
    pub(crate) fn take(
        &self,
        threads: &ThreadGroup,
        terms: impl Fn() -> ObjectTerms,
    ) -> Result<Option<PlannedObject>, Error> {
        let mut state = self.lock();
        while state.ready.is_empty() || !state.admits(&terms()) {
            if state.ready.is_empty() && state.is_answered() {
                return Ok(None);
            }
            state = self.wait(threads, state)?;
        }
        let mut pieces = Vec::new();
        let mut items = Vec::new();
        let mut left = terms().len.max(GRAIN);
        while left > 0 && pieces.len() < PIECES_MAX {
            let Some((piece, item)) = state.ready.pop_front() else {
                break;
            };
            let (piece, rest) = split(piece, left);
            left = left.saturating_sub(piece.len);
            if let Some(rest) = rest {
                state.ready.push_front((rest, Arc::clone(&item)));
            }
            items.push(item);
            pieces.push(piece);
        }
        let number = state.totals.objects;
        state.totals.objects += 1;
        state.blasting += 1;
        state.unsent += 1;
        let layout = Layout::new(pieces).map_err(|_| Fault::SourcesTooLarge)?;
        Ok(Some(PlannedObject {
            number,
            layout,
            items,
        }))
    }
}

/// Returns `spans`, which must be in order and within a file of `size` bytes.
fn in_order(spans: &[Span], size: u64) -> Result<&[Span], Error> {
    let mut at = 0;
    for (from, till) in spans {
        if *from < at || till <= from || *till > size {
            return Err(not_offered());
        }
        at = *till;
    }
    Ok(spans)
}

fn not_offered() -> Error {
    PeerFault::Invalid("a request for data that were not offered").into()
}

/// Splits `piece` into a part of about `room` bytes and the remaining part.
fn split(piece: Piece, room: u64) -> (Piece, Option<Piece>) {
    // a small rest is not worth an object
    if piece.len <= room.saturating_add(room / 4).max(LARGE) {
        return (piece, None);
    }
    let cut = (piece.offset + room.max(GRAIN)).next_multiple_of(GRAIN);
    if cut >= piece.end() {
        return (piece, None);
    }
    let first = Piece {
        len: cut - piece.offset,
        ..piece
    };
    let rest = Piece {
        offset: cut,
        len: piece.end() - cut,
        ..piece
    };
    (first, Some(rest))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use lighthaul_files::delta::stretch::Copied;

    use super::*;

    fn queue(sizes: &[u64]) -> (Queue, ThreadGroup) {
        let (queue, threads) = (Queue::default(), ThreadGroup::default());
        for size in sizes {
            queue
                .list(
                    &threads,
                    Some(Item {
                        place: PathBuf::new(),
                        size: *size,
                        version: 0,
                    }),
                )
                .unwrap();
        }
        queue.close();
        (queue, threads)
    }

    fn terms(len: u64) -> ObjectTerms {
        ObjectTerms {
            len,
            turns: 1,
            unsent_max: usize::MAX,
        }
    }

    fn file(number: u64, send: Option<Vec<Span>>, held: Vec<Span>) -> WantedFile {
        WantedFile {
            number,
            send,
            held,
            digest: DigestKind::Crc128,
            basis: None,
        }
    }

    fn all(sizes: &[u64]) -> WantedFiles {
        WantedFiles {
            entries: sizes.len() as u64,
            taken: 0,
            files: (0..sizes.len())
                .map(|number| file(number as u64, None, Vec::new()))
                .collect(),
        }
    }

    /// Returns the ranges of the next object.
    fn pieces(queue: &Queue, threads: &ThreadGroup) -> Option<Vec<Span>> {
        let plan = queue.take(threads, || terms(1 << 30)).unwrap()?;
        queue.pass_turn();
        let spans = plan.layout.pieces().iter();
        Some(spans.map(|piece| (piece.offset, piece.end())).collect())
    }

    #[test]
    fn held_ranges_that_differ_are_sent() {
        let (queue, threads) = queue(&[100]);
        let held = vec![(0, 20), (20, 40), (60, 100)];
        let wanted = file(0, Some(vec![(40, 60)]), held);
        let files = vec![wanted];
        queue
            .want(WantedFiles {
                entries: 1,
                taken: 0,
                files,
            })
            .unwrap();
        assert_eq!(pieces(&queue, &threads), Some(vec![(40, 60)]));
        for (from, till) in [(0, 20), (20, 40), (60, 100)] {
            assert!(!queue.is_answered());
            let held = queue.take_held(&threads).unwrap().unwrap();
            assert_eq!((held.piece.offset, held.piece.end()), (from, till));
            let answer = |span, wanted| Compared {
                entry: 0,
                span,
                wanted,
            };
            queue.compared(answer((from, till), from == 20)).unwrap();
            // a second answer is rejected
            queue.compared(answer((from, till), true)).unwrap_err();
        }
        assert!(queue.take_held(&threads).unwrap().is_none());
        assert!(queue.is_answered());
        assert_eq!(pieces(&queue, &threads), Some(vec![(20, 40)]));
        assert_eq!(pieces(&queue, &threads), None);
        assert_eq!(queue.totals().wanted, 40);
    }

    #[test]
    fn lanes_beyond_the_maximum_get_no_object() {
        let queue = QueueState {
            unsent: 1,
            ..QueueState::default()
        };
        let most = |unsent_max| ObjectTerms {
            unsent_max,
            ..terms(1)
        };
        assert!(!queue.admits(&most(1)));
        assert!(queue.admits(&most(2)));
    }

    #[test]
    fn long_held_ranges_are_compared_in_parts_without_gaps() {
        let size = 3 * COMPARED_MAX + 5;
        let (queue, threads) = queue(&[size]);
        let files = vec![file(0, Some(vec![(0, 7)]), vec![(7, size)])];
        queue
            .want(WantedFiles {
                entries: 1,
                taken: 0,
                files,
            })
            .unwrap();
        let mut at = 7;
        while at < size {
            let HeldRange { piece, .. } = queue.take_held(&threads).unwrap().unwrap();
            assert_eq!(piece.offset, at);
            assert!(piece.len > 0 && piece.len <= COMPARED_MAX);
            at = piece.end();
        }
        assert!(queue.take_held(&threads).unwrap().is_none());
    }

    #[test]
    fn answers_about_ranges_without_a_digest_are_rejected() {
        let (queue, threads) = queue(&[100]);
        let files = vec![file(0, Some(vec![]), vec![(0, 100)])];
        queue
            .want(WantedFiles {
                entries: 1,
                taken: 0,
                files,
            })
            .unwrap();
        let answer = |entry, span| Compared {
            entry,
            span,
            wanted: true,
        };
        queue.compared(answer(0, (0, 100))).unwrap_err();
        queue.take_held(&threads).unwrap().unwrap();
        queue.compared(answer(1, (0, 100))).unwrap_err();
        queue.compared(answer(0, (0, 99))).unwrap_err();
    }

    #[test]
    fn failed_file_is_neither_sent_nor_compared() {
        let (queue, threads) = queue(&[100, 10]);
        let files = vec![
            file(0, Some(vec![(50, 100)]), vec![(0, 50)]),
            file(1, None, vec![]),
        ];
        queue
            .want(WantedFiles {
                entries: 2,
                taken: 0,
                files,
            })
            .unwrap();
        queue.settle(1, [0].into_iter()).unwrap();
        assert!(queue.take_held(&threads).unwrap().is_none());
        assert_eq!(pieces(&queue, &threads), Some(vec![(0, 10)]));
        assert_eq!(pieces(&queue, &threads), None);
    }

    #[test]
    fn objects_contain_every_requested_byte_once() {
        let sizes = [10, 300 << 20, 5, 1 << 20, 70 << 20, 1];
        let (queue, threads) = queue(&sizes);
        queue.want(all(&sizes)).unwrap();
        let mut next = vec![0; sizes.len()];
        let mut numbers = 0;
        while let Some(plan) = queue.take(&threads, || terms(64 << 20)).unwrap() {
            queue.pass_turn();
            assert_eq!(plan.number, numbers);
            numbers += 1;
            assert!(plan.layout.object_len() <= 90 << 20);
            assert_eq!(plan.items.len(), plan.layout.pieces().len());
            for (piece, item) in plan.layout.pieces().iter().zip(&plan.items) {
                assert_eq!(piece.offset, next[piece.entry as usize]);
                assert_eq!(item.size, sizes[piece.entry as usize]);
                next[piece.entry as usize] = piece.end();
            }
        }
        assert_eq!(next, sizes);
    }

    #[test]
    fn invalid_requests_are_rejected() {
        let send = |number, spans| file(number, Some(spans), Vec::new());
        let held = |number, spans| file(number, Some(Vec::new()), spans);
        let all = |number| file(number, None, Vec::new());
        for files in [
            vec![all(2)],
            vec![send(0, vec![(0, 11)])],
            vec![send(0, vec![(5, 5)])],
            vec![send(0, vec![(5, 7), (6, 8)])],
            vec![held(0, vec![(0, 11)])],
            vec![held(0, vec![(5, 5)])],
            vec![held(0, vec![(5, 7), (6, 8)])],
            vec![all(1), all(0)],
            vec![all(0), all(0)],
        ] {
            let wanted = WantedFiles {
                entries: 2,
                taken: 0,
                files,
            };
            assert!(
                queue(&[10, 10]).0.want(wanted.clone()).is_err(),
                "{wanted:?}"
            );
        }
        let (queue, _) = queue(&[10, 10]);
        assert!(
            queue
                .want(WantedFiles {
                    entries: 3,
                    taken: 0,
                    files: vec![]
                })
                .is_err()
        );
        assert!(queue.settle(3, [].into_iter()).is_err());
    }

    /// A file of 100 bytes with an old version of as many.
    fn changed(number: u64, spans: Vec<Span>) -> WantedFile {
        WantedFile {
            basis: Some(100),
            ..file(number, Some(spans), Vec::new())
        }
    }

    #[test]
    fn stretch_of_a_failed_file_has_no_answer() {
        let (queue, threads) = queue(&[100]);
        let files = vec![changed(0, vec![(0, 100)])];
        queue
            .want(WantedFiles {
                entries: 1,
                taken: 0,
                files,
            })
            .unwrap();
        let (begun, _) = queue.next_delta(|_| 1, 1).unwrap();
        queue.settle(1, [0].into_iter()).unwrap();
        let stretch = HeldRange {
            piece: Piece {
                entry: 0,
                offset: 0,
                len: 100,
            },
            item: begun.item,
            digest: DigestKind::Blake3,
            copies: vec![Copied {
                offset: 0,
                len: 100,
                from: 0,
            }],
        };
        assert!(!queue.begin_stretch(&threads, stretch).unwrap());
        queue.end_delta(0);
        let last = Sums {
            entry: 0,
            octets: Vec::new(),
            last: true,
        };
        queue.receive_sums(&last).unwrap();
        assert!(queue.is_answered());
        assert_eq!(pieces(&queue, &threads), None);
    }

    #[test]
    fn ranges_that_wait_for_deltas_are_bounded() {
        const EACH: u64 = 1 << 12;
        let sizes = vec![2 * EACH; 2 * READY_MAX / EACH as usize];
        let (queue, _) = queue(&sizes);
        let spans: Vec<Span> = (0..EACH).map(|nth| (2 * nth, 2 * nth + 1)).collect();
        let refused = (0..sizes.len() as u64).find(|number| {
            let files = vec![changed(*number, spans.clone())];
            queue
                .want(WantedFiles {
                    entries: 1,
                    taken: 0,
                    files,
                })
                .is_err()
        });
        assert_eq!(refused, Some(READY_MAX as u64 / EACH));
    }
}
