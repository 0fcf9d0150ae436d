//! Read-ahead of one open file: blocks that are requested, and the distance ahead of the reader.
//!
//! Reads that follow each other make the window grow, to four times the bytes that the reader takes in a round trip. It
//! grows only while the reader has to wait, and has twice the bytes of a read at least. Other reads fetch their own bytes
//! only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lighthaul_base::Instant;

use crate::client::answer::Answer;

/// Bytes of a block.
pub(super) const BLOCK: u64 = 128 << 10;
/// First and longest window, in bytes.
const WINDOWS: [u64; 2] = [2 << 20, 64 << 20];
/// Bytes before the last read that are kept, since reads of several threads may be out of order.
const BEHIND: u64 = 2 << 20;
/// Maximum number of bytes that all readers hold in advance.
const AHEAD_MAX: u64 = 256 << 20;
/// Time added to the round trip, for the server and its disk.
const SLACK: Duration = Duration::from_millis(10);

/// Blocks of one open file that are requested or have arrived.
#[derive(Debug)]
pub(super) struct ReadAhead {
    blocks: BTreeMap<u64, Arc<Answer>>,
    /// Offset after the last read.
    next: u64,
    window: u64,
    /// Number of bytes that were taken since the window was adapted.
    taken: u64,
    /// Time at which the window was adapted.
    adapted: Instant,
}

impl ReadAhead {
    /// Returns the state of a file that was opened at `now`.
    pub(super) const fn new(now: Instant) -> Self {
        let [window, _] = WINDOWS;
        Self {
            blocks: BTreeMap::new(),
            next: 0,
            window,
            taken: 0,
            adapted: now,
        }
    }

    /// Returns true if a read from `offset` continues an earlier read.
    pub(super) fn continues(&self, offset: u64) -> bool {
        let from = self.next.saturating_sub(BEHIND);
        from <= offset && offset <= self.next + self.window
    }

    /// Notes a read that does not continue an earlier read.
    pub(super) fn jump(&mut self, end: u64, total: &AtomicU64) {
        let [window, _] = WINDOWS;
        self.window = window;
        self.next = end;
        self.forget_others(end, total);
    }

    /// Requests the blocks from `offset` to `end`, and blocks ahead of `end`. `request` gets the offset of a block and
    /// its length. Returns the needed blocks.
    pub(super) fn take(
        &mut self,
        (offset, end, size): (u64, u64, u64),
        total: &AtomicU64,
        mut request: impl FnMut(u64, u32) -> Option<Arc<Answer>>,
    ) -> Vec<Option<Arc<Answer>>> {
        let [_, longest] = WINDOWS;
        // or a program that reads much at a time would wait a round trip for each read
        self.window = self.window.max((2 * (end - offset)).min(longest));
        self.taken += end - offset;
        self.next = self.next.max(end);
        self.forget_others(offset, total);
        let needed = offset / BLOCK..end.div_ceil(BLOCK);
        let ahead = (end.saturating_add(self.window)).min(size).div_ceil(BLOCK);
        for block in needed.start..ahead.max(needed.end) {
            if self.blocks.contains_key(&block) {
                continue;
            }
            if block >= needed.end && total.load(Relaxed) >= AHEAD_MAX {
                break;
            }
            let from = block * BLOCK;
            let Some(answer) = request(from, BLOCK.min(size - from) as u32) else {
                break;
            };
            total.fetch_add(BLOCK, Relaxed);
            self.blocks.insert(block, answer);
        }
        needed
            .map(|block| self.blocks.get(&block).cloned())
            .collect()
    }

    /// Enlarges the window, since the reader has to wait.
    pub(super) fn adapt(&mut self, now: Instant, rtt: Duration) {
        let rtt = rtt + SLACK;
        let elapsed = now.since(self.adapted);
        if elapsed < rtt {
            return;
        }
        let [_, longest] = WINDOWS;
        let in_four_trips = u128::from(self.taken) * 4 * rtt.as_nanos() / elapsed.as_nanos();
        let wanted = u64::try_from(in_four_trips).unwrap_or(u64::MAX);
        self.window = wanted.clamp(self.window, 4 * self.window).min(longest);
        self.taken = 0;
        self.adapted = now;
    }

    /// Forgets a block whose request failed.
    pub(super) fn forget(&mut self, offset: u64, answer: &Arc<Answer>, total: &AtomicU64) {
        let block = offset / BLOCK;
        let known = self.blocks.get(&block);
        if known.is_some_and(|known| Arc::ptr_eq(known, answer)) {
            self.blocks.remove(&block);
            total.fetch_sub(BLOCK, Relaxed);
        }
    }

    /// Forgets all blocks.
    pub(super) fn clear(&mut self, total: &AtomicU64) {
        total.fetch_sub(self.blocks.len() as u64 * BLOCK, Relaxed);
        self.blocks.clear();
    }

    /// Forgets blocks that are not near the last read, which begins at `offset`. A long read needs those at its begin.
    fn forget_others(&mut self, offset: u64, total: &AtomicU64) {
        let first = offset.min(self.next.saturating_sub(BEHIND)) / BLOCK;
        let last = (self.next + self.window + BEHIND) / BLOCK;
        let before = self.blocks.len();
        self.blocks
            .retain(|block, _| (first..=last).contains(block));
        let gone = (before - self.blocks.len()) as u64;
        total.fetch_sub(gone * BLOCK, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes that are requested after a read.
    fn requested(ahead: &ReadAhead) -> u64 {
        ahead.blocks.len() as u64 * BLOCK
    }

    #[test]
    fn large_read_requests_the_next_two_of_its_length() {
        let total = AtomicU64::new(0);
        let mut ahead = ReadAhead::new(Instant::ZERO);
        let size = 200 << 20;
        let mut requests = 0;
        let mut read = |ahead: &mut ReadAhead, offset: u64, len: u64| {
            let request = |_, _| {
                requests += 1;
                Some(Arc::default())
            };
            ahead.take((offset, offset + len, size), &total, request);
            requests * BLOCK
        };
        // a program that looks at the begin of a file requests little
        read(&mut ahead, 0, BLOCK);
        assert_eq!(requested(&ahead), BLOCK + WINDOWS[0]);
        // no block is requested again
        assert_eq!(read(&mut ahead, BLOCK, 8 << 20), BLOCK + (24 << 20));
        assert_eq!(requested(&ahead), 24 << 20);
        // a read of much more is bounded, and another place begins again
        read(&mut ahead, 9 << 20, 60 << 20);
        assert!(requested(&ahead) <= (2 << 20) + (60 << 20) + WINDOWS[1] + 2 * BLOCK);
        ahead.jump(150 << 20, &total);
        assert_eq!(ahead.window, WINDOWS[0]);
        ahead.clear(&total);
        assert_eq!(total.load(Relaxed), 0);
    }
}
