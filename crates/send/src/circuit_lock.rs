//! Turn of a lane on the circuit, which carries one object at a time.
//!
//! ```text
//! lane 1: | object 1 on the circuit | tail on the stream    | prepare | object 3 on the circuit
//! lane 2:               | prepare   | object 2 on the circuit   | tail on the stream
//! ```
//!
//! A lane prepares its object while another lane still sends. It waits here until that lane has left the circuit, which
//! is idle only for as long as a thread needs to wake up.

use std::sync::{Condvar, Mutex, PoisonError};

use lighthaul_copy::thread_group::{CHECK_INTERVAL, ThreadGroup};
use lighthaul_session::error::Error;

/// Turn on the circuit, which one lane has at a time.
#[derive(Debug, Default)]
pub(super) struct CircuitLock {
    is_taken: Mutex<bool>,
    left: Condvar,
}

impl CircuitLock {
    /// Waits until no other lane has the circuit, and takes it.
    pub(super) fn take(&self, threads: &ThreadGroup) -> Result<CircuitUse<'_>, Error> {
        let mut is_taken = self.is_taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *is_taken {
            threads.check()?;
            let waited = self.left.wait_timeout(is_taken, CHECK_INTERVAL);
            is_taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *is_taken = true;
        Ok(CircuitUse(self))
    }
}

/// Use of the circuit by one lane, which ends on drop.
#[derive(Debug)]
pub(super) struct CircuitUse<'a>(&'a CircuitLock);

impl Drop for CircuitUse<'_> {
    fn drop(&mut self) {
        let mut is_taken = self
            .0
            .is_taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *is_taken = false;
        drop(is_taken);
        self.0.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::thread;

    use lighthaul_copy::error::Fault;

    use super::*;

    #[test]
    fn only_one_lane_at_a_time_uses_the_circuit() {
        let (turn, threads) = (CircuitLock::default(), ThreadGroup::default());
        let (now, most, sum) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let taken = turn.take(&threads).unwrap();
                        most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                        sum.fetch_add(1, SeqCst);
                        thread::yield_now();
                        now.fetch_sub(1, SeqCst);
                        drop(taken);
                    }
                });
            }
        });
        assert_eq!((most.into_inner(), sum.into_inner()), (1, 400));
    }

    #[test]
    fn failed_copy_ends_the_wait() {
        let (turn, threads) = (CircuitLock::default(), ThreadGroup::default());
        let _taken = turn.take(&threads).unwrap();
        threads.fail(Fault::Stopped.into());
        assert!(turn.take(&threads).is_err());
    }
}
