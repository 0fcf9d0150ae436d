//! Parts of an object that several lanes write at a time.
//!
//! A part has one slot, which one lane reserves. Other lanes with bytes of the same part wait for this slot, so that they
//! take no further space.
//!
//! ```text
//! lane 1: no slot --> reserves --> waits for space --> part begins --> writes
//! lane 2: no slot --> waits for lane 1 -----------------------------> writes
//! ```

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::stores::serving::open_parts::OpenParts;

/// Parts that have some of their bytes.
#[derive(Debug)]
pub(crate) struct SharedParts<S> {
    parts: Mutex<OpenParts<S>>,
    /// Signaled when a reservation ends.
    reserved: Condvar,
}

/// Reservation of a part by one lane. It ends when this value is dropped.
struct Reservation<'a, S: Clone> {
    of: &'a SharedParts<S>,
    number: u64,
}

impl<S: Clone> SharedParts<S> {
    /// Creates the parts of an object of `size` bytes.
    pub(crate) const fn new(size: u64, part_len: u64) -> Self {
        Self {
            parts: Mutex::new(OpenParts::new(size, part_len)),
            reserved: Condvar::new(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, OpenParts<S>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all parts that are not complete. No part can begin from now on, also for lanes that wait.
    pub(crate) fn close(&self) {
        self.lock().close();
        self.reserved.notify_all();
    }

    /// Returns the slot of a part, or none if no part can begin. One lane takes the slot with `take`, and others wait for
    /// it. After a failure, no part can begin.
    pub(crate) fn slot<E>(
        &self,
        number: u64,
        take: impl FnOnce() -> Result<S, E>,
    ) -> Result<Option<S>, E> {
        let mut parts = self.lock();
        loop {
            if let Some(slot) = parts.find(number) {
                return Ok(Some(slot));
            }
            if parts.is_closed() {
                return Ok(None);
            }
            if parts.reserve(number) {
                break;
            }
            let waited = self.reserved.wait(parts);
            parts = waited.unwrap_or_else(PoisonError::into_inner);
        }
        drop(parts);
        let _reservation = Reservation { of: self, number };
        let slot = take();
        let mut parts = self.lock();
        match slot {
            Ok(slot) => Ok(parts.begin(number, slot)),
            Err(error) => {
                parts.close();
                Err(error)
            }
        }
    }
}

impl<S: Clone> Drop for Reservation<'_, S> {
    fn drop(&mut self) {
        self.of.lock().release(self.number);
        self.of.reserved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;

    use super::*;
    use crate::spool_space::SpoolSpace;

    const LANES: usize = 4;

    /// Runs lanes that want the same part at the same time. Returns what each got, and the number of slots taken.
    fn lanes(
        parts: &Arc<SharedParts<usize>>,
        result: Result<(), ()>,
    ) -> (Vec<Result<Option<usize>, ()>>, usize) {
        let (begun, taken) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let lanes = [(); LANES].map(|()| {
            let (parts, begun, taken) = (Arc::clone(parts), Arc::clone(&begun), Arc::clone(&taken));
            thread::spawn(move || {
                begun.fetch_add(1, SeqCst);
                parts.slot(0, || {
                    let nth = taken.fetch_add(1, SeqCst);
                    while begun.load(SeqCst) < LANES {
                        thread::yield_now();
                    }
                    result.map(|()| nth)
                })
            })
        });
        let got = lanes.map(|lane| lane.join().unwrap());
        (got.into(), taken.load(SeqCst))
    }

    #[test]
    fn lanes_with_bytes_of_one_part_take_one_slot() {
        for _ in 0..100 {
            let parts = Arc::new(SharedParts::new(20, 10));
            let (got, taken) = lanes(&parts, Ok(()));
            assert_eq!(taken, 1);
            assert_eq!(got, [Ok(Some(0)); LANES]);
        }
    }

    #[test]
    fn no_lane_takes_a_slot_after_a_failure() {
        for _ in 0..100 {
            let parts = Arc::new(SharedParts::new(20, 10));
            let (got, taken) = lanes(&parts, Err(()));
            assert_eq!(taken, 1);
            let failed = got.iter().filter(|got| got.is_err()).count();
            assert_eq!(failed, 1, "{got:?}");
            assert!(parts.lock().is_closed());
        }
    }

    #[test]
    fn waiting_lane_ends_when_the_object_has_failed() {
        let parts = Arc::new(SharedParts::new(20, 10));
        assert!(parts.lock().reserve(0));
        let waits = {
            let parts = Arc::clone(&parts);
            thread::spawn(move || parts.slot(0, || Ok::<_, ()>(1)))
        };
        parts.close();
        assert_eq!(waits.join().unwrap(), Ok(None));
    }

    #[test]
    fn two_lanes_complete_a_part_that_fills_the_spool() {
        const BLOCK: u64 = 4096;
        let space = Arc::new(SpoolSpace::new(BLOCK));
        let parts = Arc::new(SharedParts::new(BLOCK, BLOCK));
        for _ in 0..20 {
            let lanes = [0, BLOCK / 2].map(|from| {
                let (space, parts) = (Arc::clone(&space), Arc::clone(&parts));
                thread::spawn(move || {
                    let take = || space.take(1, BLOCK).map(Arc::new).ok_or("full");
                    let slot = parts.slot(0, take).unwrap().unwrap();
                    drop(slot);
                    parts.lock().add(from, BLOCK / 2, 7).is_some()
                })
            });
            let whole = lanes.map(|lane| lane.join().unwrap());
            assert_eq!(whole.iter().filter(|whole| **whole).count(), 1);
        }
    }
}
