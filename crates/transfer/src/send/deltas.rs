//! Deltas of the sender: files that wait for one, and those under way.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use lighthaul_files::delta::parts::Part;
use lighthaul_files::delta::summer::Sum;
use lighthaul_files::digest::DigestKind;
use lighthaul_files::object::Span;
use lighthaul_session::error::Error;
use lighthaul_session::fault::PeerFault;

use super::item::Item;
use crate::delta_message::{DELTAS_MAX, Seeded, Sums};

/// File whose old version the receiver has.
#[derive(Debug)]
pub(super) struct DeltaFile {
    pub(super) number: u64,
    pub(super) item: Arc<Item>,
    /// Ranges that the receiver wants.
    pub(super) spans: Vec<Span>,
    /// Bytes of the old version.
    pub(super) basis: u64,
    /// Kind of the digest that is compared.
    pub(super) digest: DigestKind,
}

/// Files that wait, and deltas that have begun.
#[derive(Debug, Default)]
pub(super) struct Deltas {
    waiting: VecDeque<DeltaFile>,
    open: BTreeMap<u64, OpenDelta>,
    /// Files that were taken, and have neither begun nor been declined.
    taken: usize,
}

#[derive(Debug)]
struct OpenDelta {
    item: Arc<Item>,
    /// Blocks of the basis, and those of them whose sums are still to come.
    blocks: usize,
    left: usize,
    /// Sums that the search has not taken.
    sums: Vec<Sum>,
    /// True if no more sums come.
    complete: bool,
    /// Ends of parts that the receiver copies, by their begins.
    copied: BTreeMap<u64, u64>,
    /// True if all parts were named.
    ended: bool,
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
    /// Returns true if no delta waits or is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.open.is_empty() && self.taken == 0
    }

    /// Returns true if a file waits.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn push(&mut self, file: DeltaFile) {
        self.waiting.push_back(file);
    }

    /// Takes the next file, if it may begin while deltas of `blocks_max` blocks are under way. `blocks`
    /// returns its blocks.
    pub(super) fn next(
        &mut self,
        blocks: impl FnOnce(&DeltaFile) -> usize,
        blocks_max: usize,
    ) -> Option<DeltaFile> {
        let there: usize = self.open.values().map(|delta| delta.blocks).sum();
        let has_room = |file: &DeltaFile| {
            self.open.is_empty()
                || self.open.len() < DELTAS_MAX && there + blocks(file) <= blocks_max
        };
        let next = self.waiting.pop_front_if(|file| has_room(file));
        self.taken += usize::from(next.is_some());
        next
    }

    /// Records that a file was declined.
    pub(super) const fn decline(&mut self) {
        self.taken -= 1;
    }

    pub(super) fn begin(&mut self, file: &DeltaFile, blocks: usize) {
        let delta = OpenDelta {
            item: Arc::clone(&file.item),
            blocks,
            left: blocks,
            sums: Vec::new(),
            complete: false,
            copied: BTreeMap::new(),
            ended: false,
            failed: false,
        };
        self.open.insert(file.number, delta);
        self.taken -= 1;
    }

    /// Adds sums that have arrived.
    pub(super) fn receive(&mut self, sums: &Sums) -> Result<(), Error> {
        let delta = self
            .open
            .get_mut(&sums.entry)
            .filter(|delta| !delta.complete);
        let delta = delta.ok_or(PeerFault::Invalid("sums that were not requested"))?;
        let new = Sum::decode(&sums.octets).map_err(|_| PeerFault::Malformed)?;
        let left = delta.left.checked_sub(new.len());
        delta.left = left.ok_or(PeerFault::Invalid("more sums than blocks"))?;
        delta.complete = sums.last;
        // after the search, none are needed
        if !delta.ended {
            delta.sums.extend(new);
        }
        Ok(())
    }

    /// Takes the sums of a file that have arrived, if they are at least `count`, or no more come.
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

    /// Records the parts that the receiver copies.
    pub(super) fn note(&mut self, number: u64, parts: &[Part]) {
        let Some(delta) = self.open.get_mut(&number) else {
            return;
        };
        for part in parts {
            if let Part::Matched { span, .. } = part {
                delta.copied.insert(span.0, span.1);
            }
        }
    }

    /// Records that all parts of a file were named.
    pub(super) fn end(&mut self, number: u64) {
        if let Some(delta) = self.open.get_mut(&number) {
            delta.ended = true;
            delta.sums = Vec::new();
        }
    }

    /// Handles the result of copying. Returns the file of the parts that must be sent, unless it has
    /// failed.
    pub(super) fn seeded(&mut self, seeded: &Seeded) -> Result<Option<Arc<Item>>, Error> {
        let invalid = || PeerFault::Invalid("a result of a delta that was not requested");
        let delta = self.open.get_mut(&seeded.entry).ok_or_else(invalid)?;
        for (from, till) in &seeded.wanted {
            if delta.copied.remove(from) != Some(*till) {
                return Err(invalid().into());
            }
        }
        let item = (!delta.failed).then(|| Arc::clone(&delta.item));
        if seeded.last {
            if !delta.ended {
                return Err(invalid().into());
            }
            self.open.remove(&seeded.entry);
        }
        Ok(item)
    }

    /// Records that a file has failed.
    pub(super) fn fail(&mut self, number: u64) {
        self.waiting.retain(|file| file.number != number);
        if let Some(delta) = self.open.get_mut(&number) {
            delta.failed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use lighthaul_files::digest::Digest;

    use super::*;

    fn begun(blocks: usize) -> Deltas {
        let mut deltas = Deltas::default();
        deltas.push(DeltaFile {
            number: 7,
            item: Arc::new(Item {
                place: PathBuf::new(),
                size: 100,
                version: 0,
            }),
            spans: vec![(0, 100)],
            basis: 100,
            digest: DigestKind::Crc128,
        });
        let file = deltas.next(|_| blocks, blocks).unwrap();
        deltas.begin(&file, blocks);
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
    fn peer_can_want_only_parts_that_it_copied_and_each_once() {
        let matched = Part::Matched {
            span: (0, 50),
            from: 0,
            digest: Digest::None,
        };
        let mut deltas = begun(3);
        deltas.note(7, &[matched, Part::Missing((50, 100))]);
        let seeded = |entry, wanted: &[Span], last| Seeded {
            entry,
            wanted: wanted.to_vec(),
            last,
        };
        for wrong in [
            seeded(8, &[], false),
            seeded(7, &[(0, 49)], false),
            seeded(7, &[(50, 100)], false),
            seeded(7, &[], true),
        ] {
            deltas.seeded(&wrong).unwrap_err();
        }
        let mut deltas = begun(3);
        deltas.note(7, &[matched]);
        assert!(
            deltas
                .seeded(&seeded(7, &[(0, 50)], false))
                .unwrap()
                .is_some()
        );
        deltas.seeded(&seeded(7, &[(0, 50)], false)).unwrap_err();
        deltas.end(7);
        assert!(!deltas.is_empty());
        deltas.fail(7);
        assert!(deltas.seeded(&seeded(7, &[], true)).unwrap().is_none());
        assert!(deltas.is_empty());
    }

    #[test]
    fn deltas_under_way_are_bounded() {
        let file = |number| DeltaFile {
            number,
            item: Arc::new(Item {
                place: PathBuf::new(),
                size: 1,
                version: 0,
            }),
            spans: Vec::new(),
            basis: 1,
            digest: DigestKind::Crc128,
        };
        let count = |blocks, blocks_max| {
            let mut deltas = Deltas::default();
            (0..40).for_each(|number| deltas.push(file(number)));
            let mut begun = 0;
            while let Some(file) = deltas.next(|_| blocks, blocks_max) {
                deltas.begin(&file, blocks);
                begun += 1;
            }
            begun
        };
        assert_eq!(count(1, 100), DELTAS_MAX);
        assert_eq!(count(30, 100), 3);
        assert_eq!(count(101, 100), 1, "a large file waits for no other");
    }
}
