//! Guard times of the interfaces of devices: capacity that may still be in use after a decrease.
//!
//! ```text
//! circuit 1   #######|         decrease
//!                    |-guard-|
//! circuit 2                  |####  increase that needs the same capacity
//! circuit 3          |########      increase that has capacity of its own
//! ```
//!
//! Each interface has the guard time of its own device. An increase waits only while it needs capacity that a
//! decrease may still use. So a decrease of one circuit delays no planned increase of another one.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_base::Instant;

/// Capacity that may still be in use, by the interfaces.
#[derive(Debug, Default)]
pub(super) struct GuardTimes {
    freed: BTreeMap<String, Vec<Freed>>,
}

/// Capacity that a decrease has freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Freed {
    bps: u64,
    /// End of the guard time.
    till: Instant,
}

impl GuardTimes {
    /// Notes a decrease that was made until `now`, at a device with this guard time.
    pub(super) fn begin(&mut self, now: Instant, interface: &str, bps: u64, guard: Duration) {
        if bps == 0 || guard.is_zero() {
            return;
        }
        let till = now + guard;
        let freed = self.freed.entry(interface.to_owned()).or_default();
        freed.retain(|one| now < one.till);
        freed.push(Freed { bps, till });
    }

    /// Returns the capacity of an interface that may still be in use.
    pub(super) fn in_use(&mut self, now: Instant, interface: &str) -> u64 {
        let Some(freed) = self.freed.get_mut(interface) else {
            return 0;
        };
        freed.retain(|one| now < one.till);
        let all = freed.iter().map(|one| one.bps);
        all.fold(0, u64::saturating_add)
    }

    /// Returns the earliest end of a guard time of an interface.
    pub(super) fn next_end(&self, interface: &str) -> Option<Instant> {
        let freed = self.freed.get(interface)?;
        freed.iter().map(|one| one.till).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_capacity_counts_until_the_end_of_its_guard_time() {
        let at = |millis: u64| Instant::ZERO + Duration::from_millis(millis);
        let mut guards = GuardTimes::default();
        guards.begin(at(10), "eth1", 300, Duration::from_millis(5));
        guards.begin(at(12), "eth1", 100, Duration::from_millis(9));
        guards.begin(at(12), "eth2", 7, Duration::ZERO);
        guards.begin(at(12), "eth2", 0, Duration::from_millis(9));
        assert_eq!(guards.next_end("eth1"), Some(at(15)));
        assert_eq!([12, 14].map(|now| guards.in_use(at(now), "eth1")), [400; 2]);
        assert_eq!([15, 20].map(|now| guards.in_use(at(now), "eth1")), [100; 2]);
        assert_eq!(guards.next_end("eth1"), Some(at(21)));
        assert_eq!(guards.in_use(at(21), "eth1"), 0);
        assert_eq!(
            [guards.next_end("eth1"), guards.next_end("eth2")],
            [None; 2]
        );
    }
}
