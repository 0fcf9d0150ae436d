//! What the lanes of a transfer show of themselves.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use lighthaul_io::net::probe::LANES_MAX;

use crate::failures::Reasons;
use crate::watch::{Motion, Sight};

/// Bytes that may wait to be looked at: four thousand sights as they usually are.
const BYTES_MAX: usize = 4 << 20;
/// Bytes of one, without what it lists.
const SIGHT_BYTES: usize = 1 << 10;

/// Read by whoever watches the transfer, written by its threads.
#[derive(Debug, Default)]
pub(crate) struct Board {
    lanes: [Counts; LANES_MAX],
    sights: Mutex<Sights>,
    taken: Condvar,
    /// What the peer should know, and has not been told.
    untold: Mutex<Vec<String>>,
    /// Entries that this transfer has put in place.
    pub(crate) published: AtomicU64,
    /// Reasons that the peer has given for what it cannot send.
    pub(crate) reasons: Reasons,
}

/// What was shown and nobody has looked at yet.
#[derive(Debug, Default)]
struct Sights {
    waiting: Vec<Sight>,
    /// Bytes that these take, about.
    bytes: usize,
    /// Nobody looks any more.
    closed: bool,
}

/// What one lane has done.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Bytes of objects that are through, and of the one that is on its way.
    pub(crate) bytes: AtomicU64,
    /// Packets that it sent or received.
    pub(crate) packets: AtomicU64,
    /// Those that came or left more than once.
    pub(crate) again: AtomicU64,
    /// Genuine datagrams that the receiving end of the lane has seen.
    pub(crate) datagrams: AtomicU64,
    pub(crate) buffer_drops: AtomicU64,
    pub(crate) foreign: AtomicU64,
    pub(crate) round: AtomicU16,
    pub(crate) held: AtomicBool,
}

impl Board {
    /// The counts of lane `number`.
    pub(crate) const fn lane(&self, number: usize) -> &Counts {
        &self.lanes[number]
    }

    pub(crate) const fn lanes(&self) -> &[Counts] {
        &self.lanes
    }

    fn lock(&self) -> MutexGuard<'_, Sights> {
        self.sights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows `sight` to whoever watches, and waits while too much is there to be looked at.
    pub(crate) fn show(&self, sight: Sight) {
        let full = |sights: &mut Sights| sights.bytes >= BYTES_MAX && !sights.closed;
        let sights = self.taken.wait_while(self.lock(), full);
        let mut sights = sights.unwrap_or_else(PoisonError::into_inner);
        if !sights.closed {
            sights.bytes += bytes(&sight);
            sights.waiting.push(sight);
        }
    }

    /// Shows `text` to whoever watches, and keeps it for the peer, since somebody may look there and not here.
    /// It is told when nothing else is waited for: a peer that looks at the path would not understand it.
    pub(crate) fn tell(&self, text: String) {
        self.show(Sight::Warning(text.clone()));
        self.untold().push(text);
    }

    /// What the peer should be told.
    pub(crate) fn take_untold(&self) -> Vec<String> {
        std::mem::take(&mut *self.untold())
    }

    fn untold(&self) -> MutexGuard<'_, Vec<String>> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was shown since the last time.
    pub(crate) fn take_sights(&self) -> Vec<Sight> {
        let mut sights = self.lock();
        sights.bytes = 0;
        let taken = std::mem::take(&mut sights.waiting);
        drop(sights);
        self.taken.notify_all();
        taken
    }

    /// Nobody will look any more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.taken.notify_all();
    }

    /// How far all lanes are together.
    pub(crate) fn motion(&self, total: u64) -> Motion {
        let sum = |count: fn(&Counts) -> &AtomicU64| -> u64 {
            self.lanes
                .iter()
                .map(|lane| count(lane).load(Relaxed))
                .sum()
        };
        Motion {
            done: sum(|lane| &lane.bytes).min(total),
            total,
            round: self
                .lanes
                .iter()
                .map(|lane| lane.round.load(Relaxed))
                .max()
                .unwrap_or(0),
            sent: sum(|lane| &lane.packets),
            resent: sum(|lane| &lane.again),
            buffer_drops: sum(|lane| &lane.buffer_drops),
            foreign: sum(|lane| &lane.foreign),
            held: self.lanes.iter().any(|lane| lane.held.load(Relaxed)),
            published: self.published.load(Relaxed),
        }
    }
}

/// About how many bytes `sight` takes.
fn bytes(sight: &Sight) -> usize {
    let paths = match sight {
        Sight::Removed(paths) => paths.as_slice(),
        Sight::Started(_)
        | Sight::Moving(_)
        | Sight::Round { .. }
        | Sight::Diverted(_)
        | Sight::Chosen(..)
        | Sight::Warning(_)
        | Sight::Hashed(_)
        | Sight::Planned(_)
        | Sight::Failed(_) => &[],
    };
    let path = |path: &Vec<u8>| size_of::<Vec<u8>>() + path.len();
    SIGHT_BYTES + paths.iter().map(path).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn long_lists_wait_until_those_before_them_were_looked_at() {
        let board = Board::default();
        let removed = || Sight::Removed(vec![vec![b'p'; 4 << 10]; 256]);
        thread::scope(|scope| {
            scope.spawn(|| (0..100).for_each(|_| board.show(removed())));
            let (mut seen, mut most) = (0, 0);
            while seen < 100 {
                let sights = board.take_sights();
                most = most.max(sights.len());
                seen += sights.len();
                thread::yield_now();
            }
            assert!(most <= 4, "{most}");
        });
    }
}
