//! Lock that a thread can wait for during a limited time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Value that one thread at a time can use.
#[derive(Debug)]
pub(crate) struct TimedLock<T> {
    is_held: Mutex<bool>,
    released: Condvar,
    /// Locked by the holder only, so without a wait.
    value: Mutex<T>,
}

/// Use of the value, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a, T> {
    pub(crate) value: MutexGuard<'a, T>,
    // dropped after the value
    _release: Release<'a>,
}

#[derive(Debug)]
struct Release<'a> {
    is_held: &'a Mutex<bool>,
    released: &'a Condvar,
}

impl<T> TimedLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            is_held: Mutex::new(false),
            released: Condvar::new(),
            value: Mutex::new(value),
        }
    }

    /// Waits until no other thread uses the value.
    pub(crate) fn lock(&self) -> Turn<'_, T> {
        let held = self.is_held();
        let held = self.released.wait_while(held, |is_held| *is_held);
        self.hold(held.unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until no other thread uses the value, for `timeout` at most.
    pub(crate) fn lock_within(&self, timeout: Duration) -> Option<Turn<'_, T>> {
        let held = self.is_held();
        let waited = self
            .released
            .wait_timeout_while(held, timeout, |is_held| *is_held);
        let (held, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (!*held).then(|| self.hold(held))
    }

    fn is_held(&self) -> MutexGuard<'_, bool> {
        self.is_held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold(&self, mut is_held: MutexGuard<'_, bool>) -> Turn<'_, T> {
        *is_held = true;
        drop(is_held);
        Turn {
            value: self.value.lock().unwrap_or_else(PoisonError::into_inner),
            _release: Release {
                is_held: &self.is_held,
                released: &self.released,
            },
        }
    }
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        *self.is_held.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.released.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn held_lock_is_given_up_after_the_time_limit() {
        let lock = TimedLock::new(1);
        let mut turn = lock.lock();
        assert!(lock.lock_within(Duration::ZERO).is_none());
        assert!(lock.lock_within(Duration::from_millis(5)).is_none());
        *turn.value = 2;
        thread::scope(|scope| {
            let waits = scope.spawn(|| *lock.lock().value);
            drop(turn);
            assert_eq!(waits.join().unwrap(), 2);
        });
        let free = lock.lock_within(Duration::ZERO);
        assert_eq!(free.map(|turn| *turn.value), Some(2));
    }
}
