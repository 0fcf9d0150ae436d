//! Capacity that a device may still use after a decrease.
//!
//! ```text
//! circuit 1   #######|         decrease
//!                    |-guard-|
//! circuit 2                  |####  increase that needs the same capacity
//! circuit 3          |########      increase that has capacity of its own
//! ```
//!
//! An increase waits only while it needs capacity that a decrease of another circuit may still use. So a decrease
//! delays no planned increase of another circuit, and a circuit gets its own capacity back at once.

use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::Instant;

/// Capacity that circuits have freed, each part until the end of its guard time.
#[derive(Clone, Debug)]
pub struct FreedCapacity<C> {
    parts: Vec<Part<C>>,
}

#[derive(Clone, Debug)]
struct Part<C> {
    circuit: C,
    bps: u64,
    till: Instant,
}

impl<C> Default for FreedCapacity<C> {
    fn default() -> Self {
        Self { parts: Vec::new() }
    }
}

impl<C: PartialEq> FreedCapacity<C> {
    /// Notes that the rate of a circuit changed at `now`, at a device with the given guard time.
    pub fn change(&mut self, now: Instant, circuit: C, rates_bps: [u64; 2], guard: Duration) {
        let [before, after] = rates_bps;
        self.reclaim(&circuit, after.saturating_sub(before));
        let bps = before.saturating_sub(after);
        if bps > 0 && !guard.is_zero() {
            self.in_use(now);
            let till = now + guard;
            self.parts.push(Part { circuit, bps, till });
        }
    }

    /// Removes capacity that its circuit uses again. The latest decrease is undone first: until the end of an earlier
    /// guard time, the circuit may still have the rate from before that decrease.
    fn reclaim(&mut self, circuit: &C, mut bps: u64) {
        for part in self.parts.iter_mut().rev() {
            if part.circuit == *circuit {
                let again = part.bps.min(bps);
                part.bps -= again;
                bps -= again;
            }
        }
        self.parts.retain(|part| part.bps > 0);
    }

    /// Returns the capacity that may still be in use.
    pub fn in_use(&mut self, now: Instant) -> u64 {
        self.parts.retain(|part| now < part.till);
        self.parts
            .iter()
            .fold(0, |sum, part| part.bps.saturating_add(sum))
    }

    /// Returns the part of [`FreedCapacity::in_use`] that circuit `circuit` freed.
    pub fn in_use_by(&self, circuit: &C) -> u64 {
        let own = self.parts.iter().filter(|part| part.circuit == *circuit);
        own.fold(0, |sum, part| part.bps.saturating_add(sum))
    }

    /// Returns the earliest end of a guard time.
    pub fn next_end(&self) -> Option<Instant> {
        self.parts.iter().map(|part| part.till).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_capacity_is_in_use_until_the_end_of_the_guard_time() {
        let at = |millis: u64| Instant::ZERO + Duration::from_millis(millis);
        let mut freed = FreedCapacity::default();
        freed.change(at(10), 'a', [300, 0], Duration::from_millis(5));
        freed.change(at(12), 'b', [101, 1], Duration::from_millis(9));
        freed.change(at(12), 'a', [7, 0], Duration::ZERO);
        freed.change(at(12), 'a', [0, 0], Duration::from_millis(9));
        assert_eq!(freed.next_end(), Some(at(15)));
        assert_eq!([12, 14].map(|now| freed.in_use(at(now))), [400; 2]);
        assert_eq!([15, 20].map(|now| freed.in_use(at(now))), [100; 2]);
        assert_eq!(freed.next_end(), Some(at(21)));
        assert_eq!(freed.in_use(at(21)), 0);
        assert_eq!(freed.next_end(), None);
    }

    #[test]
    fn circuit_reuses_capacity_that_the_circuit_freed() {
        let at = |millis: u64| Instant::ZERO + Duration::from_millis(millis);
        let guard = Duration::from_millis(10);
        let mut freed = FreedCapacity::default();
        freed.change(at(0), 'a', [3, 2], guard);
        freed.change(at(5), 'a', [2, 0], guard);
        freed.change(at(5), 'b', [9, 5], guard);
        assert_eq!(['a', 'b', 'c'].map(|one| freed.in_use_by(&one)), [3, 4, 0]);
        freed.change(at(7), 'a', [0, 1], guard);
        // the circuit may still use 3, and from the end of the first guard time on 2
        assert_eq!((freed.in_use_by(&'a'), freed.in_use(at(7))), (2, 6));
        assert_eq!((freed.in_use(at(10)), freed.in_use_by(&'a')), (5, 1));
        freed.change(at(11), 'a', [1, 7], guard);
        assert_eq!((freed.in_use_by(&'a'), freed.in_use(at(14))), (0, 4));
        freed.change(at(14), 'c', [0, 50], guard);
        assert_eq!(freed.in_use(at(14)), 4);
    }
}
