//! Entries that are in place, for a sender that then removes its source files.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entries that are synced and reported together.
const BATCH: usize = 1 << 12;

/// Numbers of settled entries: true if this copy put the entry in place.
#[derive(Debug, Default)]
pub(crate) struct SettledEntries {
    wanted: AtomicBool,
    state: Mutex<PlacedState>,
}

#[derive(Debug, Default)]
struct PlacedState {
    /// Entries that may not be on disk.
    written: Vec<(u64, bool)>,
    /// Entries that are on disk and were not reported.
    durable: Vec<(u64, bool)>,
}

impl SettledEntries {
    fn lock(&self) -> MutexGuard<'_, PlacedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts recording.
    pub(crate) fn start(&self) {
        self.wanted.store(true, Relaxed);
    }

    /// Records the result of entry `number`; none if it failed or was left out.
    ///
    /// An entry that was there before may be the sender's own file, reached by another path. Only an entry that came
    /// into place now is a second copy.
    pub(crate) fn record(&self, number: u64, settled: Option<&Settled>) {
        if self.wanted.load(Relaxed) {
            let placed = matches!(settled, Some(Settled::Now));
            self.lock().written.push((number, placed));
        }
    }

    /// Returns true if a full batch of entries waits to be synced.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().written.len() >= BATCH
    }

    /// Calls `sync` to write the recorded entries to disk.
    pub(crate) fn sync<E>(&self, sync: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let written = mem::take(&mut self.lock().written);
        if !written.is_empty() {
            sync()?;
            self.lock().durable.extend(written);
        }
        Ok(())
    }

    /// Takes the entries that are on disk.
    pub(crate) fn take(&self) -> Vec<(u64, bool)> {
        mem::take(&mut self.lock().durable)
    }
}

/// Time at which the content of an entry came into place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Before this transfer.
    Before,
    /// During this transfer.
    Now,
    /// Never: the target is newer, and stays.
    Newer,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_reported_only_after_a_sync() {
        let placed = SettledEntries::default();
        placed.record(0, Some(&Settled::Now));
        placed.start();
        for (number, settled) in [
            (1, Some(&Settled::Now)),
            (2, Some(&Settled::Before)),
            (3, Some(&Settled::Newer)),
            (4, None),
        ] {
            placed.record(number, settled);
        }
        assert_eq!(placed.take(), []);
        assert_eq!(placed.sync(|| Err("full")), Err("full"));
        assert_eq!(placed.take(), [], "a failed sync reports nothing");
        placed.record(5, Some(&Settled::Now));
        placed.sync(|| Ok::<_, ()>(())).unwrap();
        assert_eq!(placed.take(), [(5, true)]);
        placed.sync(|| Err("nothing to sync")).unwrap();
    }
    #[test]
    fn entries_are_synced_in_batches_of_4096() {
        let placed = SettledEntries::default();
        placed.start();
        for number in 0..4096 {
            assert!(!placed.is_full(), "{number}");
            placed.record(number, Some(&Settled::Now));
        }
        assert!(placed.is_full());
        placed.sync(|| Ok::<_, ()>(())).unwrap();
        assert!(!placed.is_full());
        assert_eq!(placed.take().len(), 4096);
    }
}
