//! Rate shared by several lanes.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use lighthaul_base::Rate;

/// Rate of a transfer. Each sending lane gets an equal part.
#[derive(Debug)]
pub struct Share {
    whole: AtomicU64,
    senders: AtomicUsize,
}

impl Share {
    /// Creates a share of `rate` without senders.
    pub const fn new(rate: Rate) -> Self {
        Self {
            whole: AtomicU64::new(rate.as_bps()),
            senders: AtomicUsize::new(0),
        }
    }

    /// Returns the rate of all lanes together.
    pub fn whole(&self) -> Rate {
        Rate::from_bps(self.whole.load(Relaxed)).unwrap_or(Rate::UNLIMITED)
    }

    /// Sets the rate of all lanes together.
    pub fn set(&self, rate: Rate) {
        self.whole.store(rate.as_bps(), Relaxed);
    }

    /// Returns the rate of one sending lane.
    pub fn part(&self) -> Rate {
        let whole = self.whole();
        let senders = self.senders.load(Relaxed).max(1);
        if whole == Rate::UNLIMITED {
            return whole;
        }
        whole.scaled(1, u32::try_from(senders).unwrap_or(u32::MAX))
    }

    /// Counts one more sending lane.
    pub fn enter(&self) {
        self.senders.fetch_add(1, Relaxed);
    }

    /// Counts one sending lane less.
    pub fn leave(&self) {
        self.senders.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sending_lanes_share_the_rate_equally() {
        let share = Share::new(Rate::from_mbps(900));
        assert_eq!(share.part(), Rate::from_mbps(900));
        for part in [900, 450, 300] {
            share.enter();
            assert_eq!(share.part(), Rate::from_mbps(part));
        }
        share.leave();
        share.set(Rate::from_mbps(100));
        assert_eq!(share.part(), Rate::from_mbps(50));
        share.set(Rate::UNLIMITED);
        assert_eq!(share.part(), Rate::UNLIMITED);
    }
}
