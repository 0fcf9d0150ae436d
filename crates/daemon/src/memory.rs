//! Memory for what is received, shared by sessions so that all together stay within a budget.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lighthaul_io::identity::Fingerprint;

/// The least that a session gets, with which it is slow but goes on.
const SHARE_MIN: usize = 8 << 20;
/// The most that a session has use for.
const SHARE_MAX: usize = 256 << 20;
/// The part of what is free that a session gets, and the part of all that an identity gets.
const PART: usize = 4;

/// A budget of memory, and who has how much of it.
#[derive(Debug)]
pub(crate) struct Memory {
    budget: usize,
    taken: Mutex<BTreeMap<Fingerprint, usize>>,
}

/// A session's share, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Arc<Memory>,
    identity: Fingerprint,
    bytes: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.memory.lock();
        if let Some(bytes) = taken.get_mut(&self.identity) {
            *bytes -= self.bytes;
            if *bytes == 0 {
                taken.remove(&self.identity);
            }
        }
    }
}

impl Share {
    /// Bytes that the session may use.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Memory {
    /// Returns a budget of so many bytes.
    pub(crate) fn new(budget: usize) -> Arc<Self> {
        Arc::new(Self {
            budget,
            taken: Mutex::default(),
        })
    }

    /// Takes a share for a session of `identity`: a part of what is free, and of what its identity may have.
    pub(crate) fn take(self: &Arc<Self>, identity: Fingerprint) -> Share {
        let mut taken = self.lock();
        let free = self.budget.saturating_sub(taken.values().sum());
        let own = taken.entry(identity).or_default();
        let left = (self.budget / PART).saturating_sub(*own);
        let bytes = (free / PART).min(left).clamp(SHARE_MIN, SHARE_MAX);
        *own += bytes;
        Share {
            memory: Arc::clone(self),
            identity,
            bytes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Fingerprint, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_shrink_as_they_are_taken_and_one_identity_leaves_most_to_others() {
        let memory = Memory::new(2 << 30);
        let key = |digit| Fingerprint::from_octets([digit; 32]);
        let own: Vec<_> = (0..64).map(|_| memory.take(key(1))).collect();
        assert_eq!(own[0].bytes(), SHARE_MAX);
        assert_eq!(own[63].bytes(), SHARE_MIN);
        let sum: usize = own.iter().map(Share::bytes).sum();
        assert!(sum <= (2 << 30) / PART + 64 * SHARE_MIN, "{sum}");
        assert_eq!(memory.take(key(2)).bytes(), SHARE_MAX);
        drop(own);
        assert!(memory.lock().is_empty());
    }
}
