//! Reduction of the rate when the receiving host drops datagrams, and its slow recovery.

use core::time::Duration;

use lighthaul_base::{Instant, Rate};

/// Rate that is reduced when the receiving host drops datagrams.
#[derive(Clone, Copy, Debug)]
pub struct RateBackoff {
    asked: Rate,
    rate: Rate,
    changed: Instant,
}

/// Shortest time between reductions, since one stall of the host may be reported several times.
const REDUCTION_INTERVAL: Duration = Duration::from_millis(500);
/// Interval of increases without drops.
const RECOVERY_INTERVAL: Duration = Duration::from_secs(1);

impl RateBackoff {
    /// Starts at the rate `asked`.
    pub const fn new(now: Instant, asked: Rate) -> Self {
        Self {
            asked,
            rate: asked,
            changed: now,
        }
    }

    /// Allows at least `rate`, which the host has taken.
    pub fn raise(&mut self, now: Instant, rate: Rate) {
        self.asked = self.asked.max(rate);
        if rate > self.rate {
            self.rate = rate;
            self.changed = now;
        }
    }

    /// Returns the new rate, if it changes. `dropped` is true if the host has dropped datagrams
    /// since the last call.
    ///
    /// The rate falls by 5 % after drops, and rises by 2 % after each second without drops.
    pub fn update(&mut self, now: Instant, dropped: bool) -> Option<Rate> {
        let since = now.since(self.changed);
        let rate = if dropped && since >= REDUCTION_INTERVAL {
            self.rate.scaled(95, 100)
        } else if !dropped && since >= RECOVERY_INTERVAL && self.rate < self.asked {
            self.rate.scaled(102, 100).min(self.asked)
        } else {
            return None;
        };
        self.rate = rate;
        self.changed = now;
        Some(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Rate = Rate::from_mbps(1000);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn one_stall_reduces_the_rate_once() {
        let mut backoff = RateBackoff::new(at(0), ASKED);
        assert_eq!(backoff.update(at(600), true), Some(Rate::from_mbps(950)));
        assert_eq!(backoff.update(at(650), true), None);
        assert_eq!(backoff.update(at(1000), true), None);
        assert_eq!(
            backoff.update(at(1100), true),
            Some(ASKED.scaled(9025, 10_000))
        );
    }

    #[test]
    fn rate_recovers_up_to_the_initial_rate() {
        let mut backoff = RateBackoff::new(at(0), ASKED);
        assert_eq!(
            backoff.update(at(5000), false),
            None,
            "already at the initial rate"
        );
        backoff.update(at(6000), true);
        let mut last = Rate::from_mbps(950);
        for second in 7..10 {
            last = backoff.update(at(second * 1000), false).unwrap_or(last);
        }
        assert_eq!(last, ASKED);
        assert_eq!(backoff.update(at(20_000), false), None);
        let more = ASKED.scaled(2, 1);
        backoff.raise(at(20_000), more);
        assert_eq!(backoff.update(at(20_600), true), Some(more.scaled(95, 100)));
        backoff.raise(at(20_700), ASKED);
        assert_eq!(
            backoff.update(at(21_600), false),
            Some(more.scaled(969, 1000))
        );
    }
}
