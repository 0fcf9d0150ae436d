//! Share of a capacity that a hold takes.

use core::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::Rate;
use lighthaul_base::trc::Trc;

/// Share of a capacity that a hold takes from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldShare {
    since: Instant,
    ppm: u32,
}

impl HoldShare {
    /// Share of a hold that is charged to no neighbor.
    pub(crate) const NONE: Self = Self {
        since: Instant::ZERO,
        ppm: 0,
    };

    /// Returns the share of a hold: its highest rate, in relation to the capacity of its path.
    pub(crate) fn new(since: Instant, vector: &Trc, capacity: Rate) -> Self {
        let rates = vector.steps().iter().map(|step| step.rate.as_bps());
        let most = u128::from(rates.max().unwrap_or_default());
        let ppm = (most * 1_000_000).div_ceil(u128::from(capacity.as_bps()));
        Self {
            since,
            ppm: ppm.min(1_000_000) as u32,
        }
    }

    /// Returns the time for which a hold until `till` takes the whole capacity, if its rate and its time are exchanged.
    pub(crate) fn time(self, till: Instant) -> Duration {
        let nanos = till.since(self.since).as_nanos() * u128::from(self.ppm) / 1_000_000;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_capacity_counts_half() {
        let at = |secs| Instant::ZERO + Duration::from_secs(secs);
        let vector: Trc = "0s-2s 100kb/s, 2s-3s 500kb/s".parse().unwrap();
        for (kbps, secs) in [(500, 60), (1000, 30), (5000, 6), (100, 60)] {
            let capacity = Rate::from_bps(kbps * 1000).unwrap();
            let share = HoldShare::new(at(10), &vector, capacity);
            assert_eq!(share.time(at(70)), Duration::from_secs(secs), "{kbps}");
            assert_eq!(share.time(at(10)), Duration::ZERO);
        }
        assert_eq!(HoldShare::NONE.time(at(9)), Duration::ZERO);
    }
}
