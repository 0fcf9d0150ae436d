//! Limits of the memory and open files of one copy.
//!
//! [`Budget`] divides its limits among lanes, deltas and journals. A daemon gives each copy a
//! budget for its session; a client uses the default. [`Slots`] is a semaphore for files that stay
//! open, such as journals: a thread waits for a [`Slot`] before it opens one. Memory is in bytes,
//! and files are file descriptors.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_files::delta::index::Index;
use lighthaul_io::host::clock::Clock;

use crate::thread_group::{CHECK_INTERVAL, ThreadGroup};

/// Maximum number of resources that one copy may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes that wait to be sent, or to be written.
    pub memory: usize,
    /// Open files: half of them data, half journals of large files.
    pub files: usize,
}

impl Default for Budget {
    /// Returns limits that no copy exceeds.
    fn default() -> Self {
        Self {
            memory: 256 << 20,
            files: 1 << 13,
        }
    }
}

impl Budget {
    /// Returns the bytes of memory and the number of open files with data for one of `lanes` lanes.
    pub fn of_lane(self, lanes: usize) -> (usize, usize) {
        (self.memory / lanes.max(1), self.open_max(lanes))
    }

    /// Returns the number of blocks of all deltas in progress, and the budget without their memory.
    pub fn with_deltas(self) -> (usize, Self) {
        let share = self.memory / 3;
        let rest = Self {
            memory: self.memory - share,
            ..self
        };
        ((share / Index::BYTES_A_BLOCK).max(BLOCKS_MIN), rest)
    }

    /// Returns the number of files with data that each of `lanes` lanes may have open. Writing takes two descriptors
    /// for each.
    fn open_max(self, lanes: usize) -> usize {
        (self.files / 4 / lanes.max(1)).clamp(2, OPEN_MAX)
    }

    /// Returns the slots for open journals.
    pub fn journals(self) -> Slots {
        let free = (self.files / 2).max(1);
        Slots(Arc::new((Mutex::new(free), Condvar::new())))
    }
}

/// Counting semaphore: a bounded number of open files. Clones share the count.
#[derive(Clone, Debug)]
pub struct Slots(Arc<(Mutex<usize>, Condvar)>);

/// One of the [`Slots`], returned on drop.
#[derive(Debug)]
pub struct Slot(Slots);

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.0.1.notify_one();
    }
}

impl Slots {
    /// Waits for a free slot, a bounded time. Fails when a thread of the copy fails.
    pub fn take(&self, threads: &ThreadGroup) -> io::Result<Slot> {
        self.take_within(PATIENCE, threads)
    }

    fn take_within(&self, patience: Duration, threads: &ThreadGroup) -> io::Result<Slot> {
        let clock = Clock::start();
        let until = clock.now() + patience;
        let mut free = self.lock();
        while *free == 0 {
            threads.check().map_err(io::Error::other)?;
            // a wake-up for a slot that another thread took is no reason to give up
            if clock.now() >= until {
                return Err(io::Error::other(
                    "too many large files are written at the target at once; copy fewer at a time, or raise --max-open-files there",
                ));
            }
            let waited = self.0.1.wait_timeout(free, CHECK_INTERVAL);
            (free, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        Ok(Slot(self.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Minimum number of blocks of deltas; every budget has the memory for them.
const BLOCKS_MIN: usize = 1 << 13;
/// Maximum number of files with data that are useful for a lane.
const OPEN_MAX: usize = 64;
/// Longest wait until another large file is complete.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use lighthaul_session::error::{Code, Error};
    use lighthaul_session::fault::PeerFault;

    use super::*;

    #[test]
    fn slots_are_bounded_and_waiting_ends_when_the_copy_fails() {
        let (threads, budget) = (
            ThreadGroup::default(),
            Budget {
                memory: 0,
                files: 4,
            },
        );
        let slots = budget.journals();
        let both = [(); 2].map(|()| slots.take(&threads).unwrap());
        std::thread::scope(|scope| {
            let third = scope.spawn(|| slots.take(&threads).unwrap());
            drop(both);
            drop(third.join().unwrap());
        });
        let _both = [(); 2].map(|()| slots.take(&threads).unwrap());
        threads.fail(Error::from(PeerFault::reported(
            Code::Io as u8,
            "it is over",
        )));
        assert!(slots.take(&threads).is_err());
    }

    #[test]
    fn wake_ups_do_not_shorten_the_wait_for_a_slot() {
        let threads = ThreadGroup::default();
        let budget = Budget {
            memory: 0,
            files: 2,
        };
        let slots = budget.journals();
        let only = slots.take(&threads).unwrap();
        let hour = Duration::from_hours(1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| slots.take_within(hour, &threads));
            for _ in 0..10_000 {
                // the waiting thread has the lock unless it waits
                drop(slots.lock());
                slots.0.1.notify_all();
                std::thread::yield_now();
            }
            assert!(!waiting.is_finished(), "nothing is free");
            drop(only);
            waiting.join().unwrap().unwrap();
        });
        let _only = slots.take(&threads).unwrap();
        assert!(slots.take_within(Duration::ZERO, &threads).is_err());
    }

    #[test]
    fn lanes_share_open_files() {
        assert_eq!(Budget::default().open_max(2), OPEN_MAX);
        assert_eq!(
            Budget {
                memory: 0,
                files: 32
            }
            .open_max(2),
            4
        );
        assert_eq!(
            Budget {
                memory: 0,
                files: 0
            }
            .open_max(0),
            2
        );
    }
}
