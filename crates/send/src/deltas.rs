//! Deltas of the sender: files that wait for a delta, and deltas in progress.
//!
//! ```text
//! push: waiting --> next: sums requested --> receive, take --> end: searched --> removed
//! ```
//!
//! `Deltas` is the state that the queue's lock protects; it does no I/O. It bounds the blocks of
//! all deltas under way, and rejects sums that were not requested. A delta is removed only after
//! its last sums have arrived, so that late sums of an ended search are no fault of the peer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use lighthaul_copy::delta_message::{BASES_MAX, Sums};
use lighthaul_files::delta::summer::Sum;
use lighthaul_files::object::Span;
use lighthaul_session::error::Error;
use lighthaul_session::fault::PeerFault;

use super::item::Item;

/// File with an old version at the receiver.
#[derive(Debug)]
pub(super) struct DeltaFile {
    pub(super) number: u64,
    pub(super) item: Arc<Item>,
    /// Ranges that the receiver wants.
    pub(super) spans: Vec<Span>,
    /// Bytes of the old version.
    pub(super) basis: u64,
}

/// Files that wait for a delta, and deltas in progress.
#[derive(Debug, Default)]
pub(super) struct Deltas {
    waiting: VecDeque<DeltaFile>,
    open: BTreeMap<u64, OpenDelta>,
    /// Wanted ranges of both.
    spans: usize,
}

#[derive(Debug)]
struct OpenDelta {
    /// Wanted ranges of the file.
    spans: usize,
    /// Number of blocks of the basis.
    blocks: usize,
    /// Number of blocks whose sums have not arrived.
    left: usize,
    /// Sums that the search has not taken.
    sums: Vec<Sum>,
    /// True if no more sums come.
    complete: bool,
    /// True if the search has ended.
    searched: bool,
    /// True if the receiver has reported that the file failed.
    failed: bool,
}

/// Sums that a search takes.
pub(super) struct Taken {
    pub(super) sums: Vec<Sum>,
    pub(super) complete: bool,
    pub(super) failed: bool,
}

impl Deltas {
    /// Returns true if no delta waits or is in progress.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.open.is_empty()
    }

    /// Returns true if a file waits.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the bytes of the waiting files, unless a delta is in progress.
    pub(super) fn waiting_bytes(&self) -> Option<u64> {
        let spans = self.waiting.iter().flat_map(|file| &file.spans);
        let lens = spans.map(|(from, till)| till - from);
        let bytes = lens.fold(0, u64::saturating_add);
        self.open.is_empty().then_some(bytes)
    }

    /// Returns the number of wanted ranges of all files with a waiting or running delta.
    pub(super) const fn spans(&self) -> usize {
        self.spans
    }

    pub(super) fn push(&mut self, file: DeltaFile) {
        self.spans += file.spans.len();
        self.waiting.push_back(file);
    }

    /// Returns true if the next file may begin; see [`Self::next`].
    pub(super) fn can_begin(
        &self,
        blocks: impl Fn(&DeltaFile) -> usize,
        blocks_max: usize,
    ) -> bool {
        let there: usize = self.open.values().map(|delta| delta.blocks).sum();
        let has_room = self.open.len() < BASES_MAX;
        self.waiting.front().is_some_and(|file| {
            let count = blocks(file);
            count > blocks_max || has_room && there + count <= blocks_max
        })
    }

    /// Begins the delta of the next file, if memory allows it. `blocks` returns the blocks of its basis, and all deltas
    /// under way have at most `blocks_max`. Returns the file and its blocks: zero for a file that cannot have a delta.
    pub(super) fn next(
        &mut self,
        blocks: impl Fn(&DeltaFile) -> usize,
        blocks_max: usize,
    ) -> Option<(DeltaFile, usize)> {
        if !self.can_begin(&blocks, blocks_max) {
            return None;
        }
        let file = self.waiting.pop_front()?;
        let count = Some(blocks(&file)).filter(|count| *count <= blocks_max);
        let count = count.unwrap_or(0);
        let delta = OpenDelta {
            spans: file.spans.len(),
            blocks: count,
            left: count,
            sums: Vec::new(),
            complete: count == 0,
            searched: false,
            failed: false,
        };
        self.open.insert(file.number, delta);
        Some((file, count))
    }

    /// Adds sums that have arrived.
    pub(super) fn receive(&mut self, sums: &Sums) -> Result<(), Error> {
        let delta = self.open.get_mut(&sums.entry);
        let delta = delta.filter(|delta| !delta.complete);
        let delta = delta.ok_or(PeerFault::Invalid("sums that were not requested"))?;
        let new = Sum::decode(&sums.octets).map_err(|_| PeerFault::Malformed)?;
        let left = delta.left.checked_sub(new.len());
        delta.left = left.ok_or(PeerFault::Invalid("more sums than blocks"))?;
        delta.complete = sums.last;
        // after the search, none are needed
        if !delta.searched {
            delta.sums.extend(new);
        }
        self.close(sums.entry);
        Ok(())
    }

    /// Takes the sums of a file that have arrived, if there are `count` of them or no more are coming.
    pub(super) fn take(&mut self, number: u64, count: usize) -> Option<Taken> {
        let Some(delta) = self.open.get_mut(&number) else {
            return Some(Taken {
                sums: Vec::new(),
                complete: true,
                failed: true,
            });
        };
        let is_enough = delta.sums.len() >= count || delta.complete || delta.failed;
        is_enough.then(|| Taken {
            sums: std::mem::take(&mut delta.sums),
            complete: delta.complete,
            failed: delta.failed,
        })
    }

    /// Records that the search of a file has ended.
    pub(super) fn end(&mut self, number: u64) {
        if let Some(delta) = self.open.get_mut(&number) {
            delta.searched = true;
            delta.sums = Vec::new();
        }
        self.close(number);
    }

    /// Removes a finished delta, once its last sums have arrived.
    fn close(&mut self, number: u64) {
        let is_over = |delta: &OpenDelta| delta.searched && delta.complete;
        if self.open.get(&number).is_some_and(is_over)
            && let Some(delta) = self.open.remove(&number)
        {
            self.spans -= delta.spans;
        }
    }

    /// Records that files have failed.
    pub(super) fn fail(&mut self, numbers: &BTreeSet<u64>) {
        self.waiting.retain(|file| {
            let has_failed = numbers.contains(&file.number);
            if has_failed {
                self.spans -= file.spans.len();
            }
            !has_failed
        });
        for (number, delta) in &mut self.open {
            delta.failed |= numbers.contains(number);
        }
    }

    /// Returns true if the receiver has reported that a file failed.
    pub(super) fn has_failed(&self, number: u64) -> bool {
        self.open.get(&number).is_none_or(|delta| delta.failed)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn file(number: u64) -> DeltaFile {
        DeltaFile {
            number,
            item: Arc::new(Item {
                place: PathBuf::new(),
                size: 100,
                version: 0,
            }),
            spans: vec![(0, 100)],
            basis: 100,
        }
    }

    fn begun(blocks: usize) -> Deltas {
        let mut deltas = Deltas::default();
        deltas.push(file(7));
        deltas.next(|_| blocks, blocks).unwrap();
        deltas
    }

    fn sums(entry: u64, count: usize, last: bool) -> Sums {
        let octets = vec![1; 8 * count];
        Sums {
            entry,
            octets,
            last,
        }
    }

    #[test]
    fn peer_cannot_send_more_sums_than_blocks() {
        let mut deltas = begun(3);
        deltas.receive(&sums(7, 2, false)).unwrap();
        assert!(deltas.take(7, 3).is_none());
        assert_eq!(deltas.take(7, 2).map(|taken| taken.sums.len()), Some(2));
        deltas.receive(&sums(7, 2, false)).unwrap_err();
        let mut odd = sums(7, 1, false);
        odd.octets.pop();
        for wrong in [sums(8, 1, false), odd] {
            begun(3).receive(&wrong).unwrap_err();
        }
        let mut deltas = begun(3);
        deltas.receive(&sums(7, 1, true)).unwrap();
        assert!(deltas.take(7, 3).is_some_and(|taken| taken.complete));
        deltas.receive(&sums(7, 1, true)).unwrap_err();
    }

    #[test]
    fn delta_ends_after_its_search_and_its_last_sums() {
        let mut deltas = begun(3);
        deltas.push(file(8));
        assert_eq!(deltas.waiting_bytes(), None);
        deltas.fail(&[8].into());
        deltas.end(7);
        deltas.receive(&sums(7, 1, false)).unwrap();
        assert!(!deltas.is_empty());
        deltas.receive(&sums(7, 0, true)).unwrap();
        assert!(deltas.is_empty());
        let mut deltas = begun(3);
        deltas.receive(&sums(7, 3, true)).unwrap();
        deltas.fail(&[7].into());
        assert!(deltas.has_failed(7) && !deltas.is_empty());
        deltas.end(7);
        assert!(deltas.is_empty());
        deltas.push(file(9));
        assert_eq!(deltas.waiting_bytes(), Some(100));
    }

    #[test]
    fn deltas_in_progress_are_bounded() {
        let count = |blocks, blocks_max| {
            let mut deltas = Deltas::default();
            (0..100).for_each(|number| deltas.push(file(number)));
            std::iter::from_fn(|| deltas.next(|_| blocks, blocks_max))
                .map(|(_, count)| count)
                .collect::<Vec<_>>()
        };
        assert_eq!(count(1, 100), [1; BASES_MAX]);
        assert_eq!(count(30, 100), [30; 3]);
        assert_eq!(count(101, 100), [0; 100], "too large for a delta");
    }

    #[test]
    fn number_of_ranges_includes_unfinished_deltas() {
        let mut deltas = begun(3);
        (8..11).for_each(|number| deltas.push(file(number)));
        assert_eq!(deltas.spans(), 4);
        deltas.fail(&[8, 9].into());
        assert_eq!(deltas.spans(), 2);
        deltas.end(7);
        assert_eq!(deltas.spans(), 2, "its sums are still to come");
        deltas.receive(&sums(7, 0, true)).unwrap();
        assert_eq!(deltas.spans(), 1);
    }

    #[test]
    fn delta_begins_only_with_free_memory() {
        let mut deltas = Deltas::default();
        assert!(!deltas.can_begin(|_| 60, 100), "none waits");
        (0..3).for_each(|number| deltas.push(file(number)));
        assert!(deltas.can_begin(|_| 60, 100));
        deltas.next(|_| 60, 100).unwrap();
        assert!(deltas.has_waiting() && !deltas.can_begin(|_| 60, 100));
        assert!(deltas.can_begin(|_| 40, 100));
        assert!(deltas.can_begin(|_| 101, 100), "it is sent as a whole");
    }
}
