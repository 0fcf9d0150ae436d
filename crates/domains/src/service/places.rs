//! Places of a neighbor's messages in the queue of events, so that a flood of one neighbor delays no other for long.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Free places of one neighbor.
#[derive(Clone, Debug)]
pub(super) struct Places(Arc<(Mutex<usize>, Condvar)>);

/// Place that is taken until this is dropped.
#[derive(Debug)]
pub(super) struct Place(Places);

impl Places {
    /// Returns free places.
    pub(super) fn new(count: usize) -> Self {
        Self(Arc::new((Mutex::new(count), Condvar::new())))
    }

    /// Waits for a free place and takes it.
    pub(super) fn take(&self) -> Place {
        let (free, freed) = &*self.0;
        let guard = free.lock().unwrap_or_else(PoisonError::into_inner);
        let guard = freed.wait_while(guard, |free| *free == 0);
        *guard.unwrap_or_else(PoisonError::into_inner) -= 1;
        Place(self.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let (free, freed) = &*self.0.0;
        *free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        freed.notify_one();
    }
}
