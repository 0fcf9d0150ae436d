//! Rate limit of requests.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;

/// Token buckets, one for each name, that refill at a fixed rate. Each request takes one token.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    per_second: u32,
    buckets: Mutex<BTreeMap<String, Instant>>,
}

impl RateLimiter {
    /// Returns a limit of `per_second` requests a second for each name, with bursts of twice that number.
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            per_second: per_second.max(1),
            buckets: Mutex::default(),
        }
    }

    /// Takes a token for a request of `name`, or returns how long to wait for one.
    pub(crate) fn take(&self, name: &str, now: Instant) -> Result<(), Duration> {
        let each = Duration::from_secs(1) / self.per_second;
        let depth = Duration::from_secs(2);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= NAMES_MAX {
            // a full bucket need not be stored
            buckets.retain(|_, empty_till| *empty_till > now);
        }
        if buckets.len() >= NAMES_MAX && !buckets.contains_key(name) {
            return Err(Duration::from_secs(1));
        }
        // a bucket is stored as the time at which it is full again
        let full_at = buckets.get(name).copied().unwrap_or(now).max(now);
        let next = full_at + each;
        let wait = next.since(now).saturating_sub(depth);
        if !wait.is_zero() {
            return Err(wait);
        }
        buckets.insert(name.to_owned(), next);
        Ok(())
    }
}

/// Maximum number of buckets.
const NAMES_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_its_own_bucket_that_refills() {
        let limits = RateLimiter::new(10);
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let taken = (0..100).filter(|_| limits.take("a", at(0)).is_ok()).count();
        assert_eq!(taken, 20);
        assert_eq!(limits.take("a", at(40)), Err(Duration::from_millis(60)));
        assert!(limits.take("b", at(40)).is_ok());
        assert!(limits.take("a", at(100)).is_ok());
        assert!(limits.take("a", at(100)).is_err());
        let taken = (0..100)
            .filter(|_| limits.take("a", at(9_000)).is_ok())
            .count();
        assert_eq!(taken, 20);
    }

    #[test]
    fn number_of_buckets_is_bounded_and_full_buckets_are_deleted() {
        let limits = RateLimiter::new(10);
        let now = Instant::ZERO;
        let taken = (0..NAMES_MAX + 5).filter(|nth| limits.take(&nth.to_string(), now).is_ok());
        assert_eq!(taken.count(), NAMES_MAX);
        assert!(limits.take("new", now + Duration::from_secs(3)).is_ok());
    }
}
