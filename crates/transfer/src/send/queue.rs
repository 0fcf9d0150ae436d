//! What is to be sent: entries that were listed, the parts of them that are wanted, and objects made
//! of those.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use lighthaul_io::disk::Look;

use crate::crew::{Crew, LOOK};
use crate::error::{Code, Error};
use crate::manifest::WINDOW;
use crate::message::Wanted;
use crate::object::{LARGE, Layout, PIECES_MAX, Piece};

/// Parts of files that may wait to be sent: of each entry one, and more of few that are resumed.
const READY_MAX: usize = 1 << 20;
/// Large files are cut at multiples of this.
const GRAIN: u64 = 1 << 20;

/// A file that may be wanted.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) place: PathBuf,
    pub(crate) look: Look,
}

/// An object that a lane is to send.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) number: u64,
    pub(crate) layout: Layout,
    /// The file of each piece.
    pub(crate) items: Vec<Arc<Item>>,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Entries listed, and bytes of their files.
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    /// Bytes that the receiver wants of them.
    pub(crate) wanted: u64,
    /// Entries that are in place or have failed.
    pub(crate) settled: u64,
    /// Objects that lanes have taken.
    pub(crate) objects: u64,
}

#[derive(Debug, Default)]
struct State {
    items: BTreeMap<u64, Arc<Item>>,
    ready: VecDeque<Piece>,
    totals: Totals,
    /// Entries that the receiver has looked at.
    judged: u64,
    listed: bool,
    /// Lanes that send an object for the first time.
    blasting: usize,
}

impl State {
    /// Forgets files that nobody wants.
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

/// Shared by the thread that lists, the one that hears what is wanted, and the lanes.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &self,
        crew: &Crew,
        state: MutexGuard<'a, State>,
    ) -> Result<MutexGuard<'a, State>, Error> {
        crew.check()?;
        let waited = self.changed.wait_timeout(state, LOOK);
        Ok(waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// How much there is so far.
    pub(crate) fn totals(&self) -> Totals {
        self.lock().totals
    }

    /// Bytes that are wanted, once that is known.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let state = self.lock();
        let known = state.listed && state.judged == state.totals.entries;
        known.then_some(state.totals.wanted)
    }

    /// Takes in the next entry, a file if there is an item. Waits while the receiver has a window full
    /// of them.
    pub(crate) fn list(&self, crew: &Crew, item: Option<Item>) -> Result<(), Error> {
        let mut state = self.lock();
        while state.totals.entries - state.totals.settled >= WINDOW {
            state = self.wait(crew, state)?;
        }
        let number = state.totals.entries;
        state.totals.entries += 1;
        if let Some(item) = item {
            state.totals.bytes = state.totals.bytes.saturating_add(item.look.size);
            state.items.insert(number, Arc::new(item));
        }
        Ok(())
    }

    /// There will be no more entries.
    pub(crate) fn close(&self) {
        self.lock().listed = true;
        self.changed.notify_all();
    }

    /// Whether the receiver has looked at every entry there is.
    pub(crate) fn is_judged(&self) -> bool {
        let state = self.lock();
        state.listed && state.judged == state.totals.entries
    }

    /// How many entries the receiver has looked at, a moment later.
    pub(crate) fn judged(&self, crew: &Crew) -> Result<u64, Error> {
        Ok(self.wait(crew, self.lock())?.judged)
    }

    /// Takes in what the receiver wants of the next entries.
    pub(crate) fn want(&self, wanted: Wanted) -> Result<(), Error> {
        let lie = || Error::new(Code::Protocol, "the peer wants what was not offered");
        let mut state = self.lock();
        let from = state.judged;
        let till = from
            .checked_add(wanted.entries)
            .filter(|till| *till <= state.totals.entries);
        let till = till.ok_or_else(lie)?;
        let mut next = from;
        for (number, spans) in wanted.files {
            let item = state
                .items
                .get(&number)
                .filter(|_| (next..till).contains(&number));
            let size = item.ok_or_else(lie)?.look.size;
            state.drop_items(next..number);
            next = number + 1;
            let mut at = 0;
            for (from, to) in spans.unwrap_or_else(|| vec![(0, size)]) {
                if from < at || to <= from || to > size || state.ready.len() >= READY_MAX {
                    return Err(lie());
                }
                at = to;
                state.totals.wanted += to - from;
                state.ready.push_back(Piece {
                    entry: number,
                    offset: from,
                    len: to - from,
                });
            }
        }
        state.drop_items(next..till);
        state.judged = till;
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// An object has been sent for the first time: it is another lane's turn.
    pub(crate) fn pass_turn(&self) {
        self.lock().blasting -= 1;
        self.changed.notify_all();
    }

    /// So many more entries are in place, or have failed; these have, so that no more is sent of them.
    pub(crate) fn settle(
        &self,
        entries: u64,
        failed: impl Iterator<Item = u64>,
    ) -> Result<(), Error> {
        let mut state = self.lock();
        for number in failed {
            if state.items.remove(&number).is_some() {
                state.ready.retain(|piece| piece.entry != number);
            }
        }
        let settled = state.totals.settled.checked_add(entries);
        let settled = settled.filter(|settled| *settled <= state.totals.entries);
        state.totals.settled = settled.ok_or_else(|| {
            Error::new(
                Code::Protocol,
                "the peer's account is about entries that were not sent",
            )
        })?;
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// The next object, of about `len` bytes when it is made; nothing once there are no more. Waits while `turns`
    /// lanes are sending theirs for the first time.
    pub(crate) fn take(
        &self,
        crew: &Crew,
        len: impl Fn() -> u64,
        turns: usize,
    ) -> Result<Option<Plan>, Error> {
        let mut state = self.lock();
        while state.ready.is_empty() || state.blasting >= turns {
            if state.ready.is_empty() && state.listed && state.judged == state.totals.entries {
                return Ok(None);
            }
            state = self.wait(crew, state)?;
        }
        let mut pieces = Vec::new();
        let mut items = Vec::new();
        let mut left = len().max(GRAIN);
        while left > 0 && pieces.len() < PIECES_MAX {
            let Some(piece) = state.ready.pop_front() else {
                break;
            };
            let (piece, rest) = split(piece, left);
            left = left.saturating_sub(piece.len);
            let item = match rest {
                Some(rest) => {
                    state.ready.push_front(rest);
                    state.items.get(&piece.entry).cloned()
                }
                // ranges of one file are next to each other
                None if state
                    .ready
                    .front()
                    .is_none_or(|next| next.entry != piece.entry) =>
                {
                    state.items.remove(&piece.entry)
                }
                None => state.items.get(&piece.entry).cloned(),
            };
            items.extend(item);
            pieces.push(piece);
        }
        let number = state.totals.objects;
        state.totals.objects += 1;
        state.blasting += 1;
        let layout = Layout::new(pieces)
            .map_err(|_| Error::new(Code::Usage, "the sources are too large"))?;
        Ok(Some(Plan {
            number,
            layout,
            items,
        }))
    }
}

/// The part of `piece` that fits in about `room` bytes, and what is left of it.
fn split(piece: Piece, room: u64) -> (Piece, Option<Piece>) {
    // a small rest is no object of its own
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
    use super::*;

    fn queue(sizes: &[u64]) -> (Queue, Crew) {
        let (queue, crew) = (Queue::default(), Crew::default());
        for size in sizes {
            let look = Look {
                size: *size,
                seconds: 0,
                nanos: 0,
            };
            queue
                .list(
                    &crew,
                    Some(Item {
                        place: PathBuf::new(),
                        look,
                    }),
                )
                .unwrap();
        }
        queue.close();
        (queue, crew)
    }

    fn all(sizes: &[u64]) -> Wanted {
        Wanted {
            entries: sizes.len() as u64,
            files: (0..sizes.len())
                .map(|number| (number as u64, None))
                .collect(),
        }
    }

    #[test]
    fn objects_hold_every_wanted_byte_once() {
        let sizes = [10, 300 << 20, 5, 1 << 20, 70 << 20, 1];
        let (queue, crew) = queue(&sizes);
        queue.want(all(&sizes)).unwrap();
        let mut next = vec![0; sizes.len()];
        let mut numbers = 0;
        while let Some(plan) = queue.take(&crew, || 64 << 20, 1).unwrap() {
            queue.pass_turn();
            assert_eq!(plan.number, numbers);
            numbers += 1;
            assert!(plan.layout.object_len() <= 90 << 20);
            assert_eq!(plan.items.len(), plan.layout.pieces().len());
            for (piece, item) in plan.layout.pieces().iter().zip(&plan.items) {
                assert_eq!(piece.offset, next[piece.entry as usize]);
                assert_eq!(item.look.size, sizes[piece.entry as usize]);
                next[piece.entry as usize] = piece.end();
            }
        }
        assert_eq!(next, sizes);
    }

    #[test]
    fn wishes_that_cannot_be_are_refused() {
        for files in [
            vec![(2, None)],
            vec![(0, Some(vec![(0, 11)]))],
            vec![(0, Some(vec![(5, 5)]))],
            vec![(0, Some(vec![(5, 7), (6, 8)]))],
            vec![(1, None), (0, None)],
            vec![(0, None), (0, None)],
        ] {
            let wanted = Wanted { entries: 2, files };
            assert!(
                queue(&[10, 10]).0.want(wanted.clone()).is_err(),
                "{wanted:?}"
            );
        }
        let (queue, _) = queue(&[10, 10]);
        assert!(
            queue
                .want(Wanted {
                    entries: 3,
                    files: vec![]
                })
                .is_err()
        );
        assert!(queue.settle(3, [].into_iter()).is_err());
    }
}
