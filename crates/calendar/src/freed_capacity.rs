//! Capacity that a device may still use after a decrease.
//!
//! ```text
//! circuit 1   #######|         decrease
//!                    |-guard-|
//! circuit 2                  |####  increase that needs the same capacity
//! circuit 3          |########      increase that has capacity of its own
//! ```
//!
//! An increase waits only while it needs capacity that a decrease may still use. So a decrease of one circuit delays no
//! planned increase of another one.

use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::Instant;

/// Capacity that was freed, each part until the end of its guard time.
#[derive(Clone, Debug, Default)]
pub struct FreedCapacity {
    parts: Vec<(u64, Instant)>,
}

impl FreedCapacity {
    /// Notes a decrease that was made until `now`, at a device with this guard time.
    pub fn begin(&mut self, now: Instant, bps: u64, guard: Duration) {
        if bps > 0 && !guard.is_zero() {
            self.in_use(now);
            self.parts.push((bps, now + guard));
        }
    }

    /// Returns the capacity that may still be in use.
    pub fn in_use(&mut self, now: Instant) -> u64 {
        self.parts.retain(|(_, till)| now < *till);
        let all = self.parts.iter().map(|(bps, _)| *bps);
        all.fold(0, u64::saturating_add)
    }

    /// Returns the earliest end of a guard time.
    pub fn next_end(&self) -> Option<Instant> {
        self.parts.iter().map(|(_, till)| *till).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_capacity_counts_until_the_end_of_its_guard_time() {
        let at = |millis: u64| Instant::ZERO + Duration::from_millis(millis);
        let mut freed = FreedCapacity::default();
        freed.begin(at(10), 300, Duration::from_millis(5));
        freed.begin(at(12), 100, Duration::from_millis(9));
        freed.begin(at(12), 7, Duration::ZERO);
        freed.begin(at(12), 0, Duration::from_millis(9));
        assert_eq!(freed.next_end(), Some(at(15)));
        assert_eq!([12, 14].map(|now| freed.in_use(at(now))), [400; 2]);
        assert_eq!([15, 20].map(|now| freed.in_use(at(now))), [100; 2]);
        assert_eq!(freed.next_end(), Some(at(21)));
        assert_eq!(freed.in_use(at(21)), 0);
        assert_eq!(freed.next_end(), None);
    }
}
