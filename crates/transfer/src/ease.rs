//! Easing off when the receiving host drops what the network brought, and coming back slowly.

use std::time::Duration;

use lighthaul_base::{Instant, Rate};

/// A rate that yields to a host that cannot keep up.
#[derive(Clone, Copy, Debug)]
pub struct Ease {
    asked: Rate,
    rate: Rate,
    changed: Instant,
}

/// One stall of the host is one reason to slow down, however often it is reported.
const PATIENCE: Duration = Duration::from_millis(500);
/// Without drops, the rate comes back this often.
const RECOVERY: Duration = Duration::from_secs(1);

impl Ease {
    /// Keeps `asked` until there is a reason not to.
    pub const fn new(now: Instant, asked: Rate) -> Self {
        Self {
            asked,
            rate: asked,
            changed: now,
        }
    }

    /// Hears whether the host has dropped anything since the last time; answers a new rate if there
    /// is one: 5 % less after drops, 2 % more after each second without.
    pub fn hear(&mut self, now: Instant, dropped: bool) -> Option<Rate> {
        let since = now.since(self.changed);
        let rate = if dropped && since >= PATIENCE {
            self.rate.scaled(95, 100)
        } else if !dropped && since >= RECOVERY && self.rate < self.asked {
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
    fn one_stall_costs_one_step() {
        let mut ease = Ease::new(at(0), ASKED);
        assert_eq!(ease.hear(at(600), true), Some(Rate::from_mbps(950)));
        assert_eq!(ease.hear(at(650), true), None);
        assert_eq!(ease.hear(at(1000), true), None);
        assert_eq!(ease.hear(at(1100), true), Some(ASKED.scaled(9025, 10_000)));
    }

    #[test]
    fn the_rate_comes_back_and_no_further() {
        let mut ease = Ease::new(at(0), ASKED);
        assert_eq!(ease.hear(at(5000), false), None, "nothing to recover from");
        ease.hear(at(6000), true);
        let mut last = Rate::from_mbps(950);
        for second in 7..10 {
            last = ease.hear(at(second * 1000), false).unwrap_or(last);
        }
        assert_eq!(last, ASKED);
        assert_eq!(ease.hear(at(20_000), false), None);
    }
}
