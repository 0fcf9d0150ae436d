//! Space on disk for parts of objects that are not complete. All served buckets share it.
//!
//! Parts get space in the order in which they ask. If nothing becomes free for some time, the newest upload that waits is
//! refused, so that the older ones can complete their parts. While complete parts wait for their bucket, none is refused.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Place for bytes whose parts are not complete. All buckets of a daemon share it.
#[derive(Clone, Debug)]
pub struct SpoolPlace {
    /// Directory.
    pub folder: PathBuf,
    /// Limited space there.
    pub space: Arc<SpoolSpace>,
    /// Time for which the store keeps the parts of an interrupted upload.
    pub upload_keep: Duration,
}

/// Space on disk with a limit.
#[derive(Debug)]
pub struct SpoolSpace {
    max: u64,
    patience: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes in use.
    taken: u64,
    /// Number of uploads so far.
    uploads: u64,
    /// Number of parts that have asked so far.
    turns: u64,
    /// Number of times that space was freed.
    freed: u64,
    /// Uploads of the parts that wait, by their turns.
    waiting: BTreeMap<u64, u64>,
    /// Number of complete parts that wait for their buckets, and free space then.
    leaving: u64,
}

/// Space of one part. It is freed when this value is dropped.
#[derive(Debug)]
pub struct Space {
    of: Arc<SpoolSpace>,
    bytes: u64,
}

/// Complete part that frees its space as soon as its bucket is ready.
#[derive(Debug)]
pub struct Leaving<'a>(&'a SpoolSpace);

impl SpoolSpace {
    /// Creates space for `max` bytes.
    pub fn new(max: u64) -> Self {
        Self {
            max,
            patience: PATIENCE,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Returns the limit in bytes.
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// Returns the number of a new upload.
    pub fn next_upload(&self) -> u64 {
        let mut state = self.state();
        state.uploads += 1;
        state.uploads
    }

    /// Waits for space for a part of `len` bytes, which must not be more than the limit. Returns none if the space is full,
    /// and no older upload frees any.
    pub fn take(self: &Arc<Self>, upload: u64, len: u64) -> Option<Space> {
        let bytes = len.next_multiple_of(BLOCK).min(self.max);
        let mut state = self.state();
        state.turns += 1;
        let turn = state.turns;
        state.waiting.insert(turn, upload);
        loop {
            let is_next = state.waiting.keys().next() == Some(&turn);
            let fits = is_next && state.taken + bytes <= self.max;
            let freed = state.freed;
            if !fits {
                let waited = self.changed.wait_timeout(state, self.patience);
                let (now, result) = waited.unwrap_or_else(PoisonError::into_inner);
                state = now;
                let is_stuck = result.timed_out() && state.freed == freed && state.leaving == 0;
                if !is_stuck || state.waiting.values().max() != Some(&upload) {
                    continue;
                }
            }
            state.waiting.remove(&turn);
            state.taken += if fits { bytes } else { 0 };
            drop(state);
            // another part may be the next one now
            self.changed.notify_all();
            let of = Arc::clone(self);
            return fits.then(|| Space { of, bytes });
        }
    }

    /// Announces a complete part that waits for its bucket.
    pub fn leaving(&self) -> Leaving<'_> {
        self.state().leaving += 1;
        Leaving(self)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let mut state = self.of.state();
        state.taken -= self.bytes;
        state.freed += 1;
        drop(state);
        self.of.changed.notify_all();
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.state().leaving -= 1;
    }
}

/// Time without freed space after which the newest upload is refused.
const PATIENCE: Duration = Duration::from_secs(10);
/// Unit in which file systems give space to files.
const BLOCK: u64 = 4096;

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn space(max: u64, patience: Duration) -> Arc<SpoolSpace> {
        Arc::new(SpoolSpace {
            patience,
            ..SpoolSpace::new(max)
        })
    }

    #[test]
    fn part_waits_until_space_is_freed() {
        let all = space(3 * BLOCK, Duration::from_mins(1));
        let (one, other) = (all.take(1, 2 * BLOCK), all.take(1, 1));
        assert_eq!(all.state().taken, 3 * BLOCK);
        let waits = {
            let all = Arc::clone(&all);
            thread::spawn(move || all.take(2, BLOCK).is_some())
        };
        while all.state().waiting.is_empty() {
            thread::yield_now();
        }
        assert_eq!(all.state().taken, 3 * BLOCK);
        drop(one);
        assert!(waits.join().unwrap());
        drop(other);
        assert_eq!(all.state().taken, 0);
    }

    #[test]
    fn newest_upload_is_refused_if_nothing_is_freed() {
        let all = space(2 * BLOCK, Duration::from_millis(20));
        let held = [all.take(1, BLOCK), all.take(2, BLOCK)];
        let older = {
            let all = Arc::clone(&all);
            thread::spawn(move || all.take(1, BLOCK).is_some())
        };
        while all.state().waiting.is_empty() {
            thread::yield_now();
        }
        assert!(all.take(2, BLOCK).is_none());
        // the refused upload frees what it has
        let [_first, second] = held;
        drop(second);
        assert!(older.join().unwrap());
    }

    #[test]
    fn no_upload_is_refused_while_complete_parts_wait_for_their_bucket() {
        let all = space(BLOCK, Duration::from_millis(5));
        let held = all.take(1, BLOCK);
        let leaving = all.leaving();
        let waits = {
            let all = Arc::clone(&all);
            thread::spawn(move || all.take(2, BLOCK).is_some())
        };
        while all.state().waiting.is_empty() {
            thread::yield_now();
        }
        // many times the patience
        thread::park_timeout(Duration::from_millis(100));
        assert!(!waits.is_finished());
        drop(leaving);
        drop(held);
        assert!(waits.join().unwrap());
    }
}
