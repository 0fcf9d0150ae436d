//! Settings of a domain: its neighbors, their policies, and the timers.

use alloc::collections::BTreeMap;
use core::time::Duration;

use lighthaul_base::Rate;

use crate::key::DomainId;

/// Settings of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of this domain.
    pub me: DomainId,
    /// Neighbors, which are the only trusted domains, and their policies.
    pub neighbors: BTreeMap<DomainId, Policy>,
    /// Timers.
    pub timing: Timing,
    /// Number of candidate paths that a request compares.
    pub paths_max: usize,
    /// Number of times that a request queries all candidates again after they were refused.
    pub rounds_max: u8,
}

/// Limits of one neighbor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Highest rate of one reservation.
    pub rate_max: Rate,
    /// Highest sum of the rates of all reservations that are held or committed, at each time.
    pub rate_total_max: Rate,
    /// Maximum number of reservations that are held or committed, and of open queries.
    pub reservations_max: usize,
    /// Time in each hour for which the neighbor may hold the whole capacity of a path through this domain without a
    /// commit. Half the capacity counts half.
    pub uncommitted_per_hour: Duration,
    /// Maximum time from now to the end of a reservation.
    pub horizon: Duration,
    /// True if the neighbor may reserve paths to other domains through this domain.
    pub transit: bool,
}

/// Timers. Domains may differ in them, since absolute times are part of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time for the answers to a query.
    pub query: Duration,
    /// Time from the request to the end of the hold.
    pub hold: Duration,
    /// Time from the end of the hold to the decision.
    pub decide: Duration,
    /// Longest time from now to the decision that a neighbor may ask for.
    pub hold_max: Duration,
    /// Time before the first retry of a message; the time doubles with each retry.
    pub retry: Duration,
    /// Longest time between two retries.
    pub retry_max: Duration,
    /// Time between two comparisons of a committed reservation with the neighbors.
    pub refresh: Duration,
    /// Time after the end of a vector until it is forgotten: at least twice `clock_tolerance` and the longest delay.
    pub linger: Duration,
    /// Maximum difference of a neighbor's clock, including the delay of its message.
    pub clock_tolerance: Duration,
}

impl Timing {
    /// Returns true if every timer makes progress, and this domain's holds are within the limit for neighbors. Ended vectors
    /// must be known for as long as a neighbor with another clock asks for them.
    pub fn is_valid(&self) -> bool {
        let least = self.query.min(self.hold).min(self.retry).min(self.refresh);
        !least.is_zero()
            && self.retry <= self.retry_max
            && self.hold.saturating_add(self.decide) <= self.hold_max
            && self.clock_tolerance.saturating_mul(2) <= self.linger
    }
}

impl Default for Policy {
    /// All rates, 1000 reservations, ten minutes of each hour without a commit, 30 days, transit.
    fn default() -> Self {
        Self {
            rate_max: Rate::UNLIMITED,
            rate_total_max: Rate::UNLIMITED,
            reservations_max: 1000,
            uncommitted_per_hour: Duration::from_mins(10),
            horizon: Duration::from_hours(24 * 30),
            transit: true,
        }
    }
}

impl Default for Timing {
    /// Two seconds for queries, five for holds, five for decisions.
    fn default() -> Self {
        Self {
            query: Duration::from_secs(2),
            hold: Duration::from_secs(5),
            decide: Duration::from_secs(5),
            hold_max: Duration::from_mins(1),
            retry: Duration::from_millis(500),
            retry_max: Duration::from_secs(30),
            refresh: Duration::from_mins(1),
            linger: Duration::from_secs(10),
            clock_tolerance: Duration::from_secs(3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_without_progress_are_invalid() {
        let with = |change: fn(&mut Timing)| {
            let mut timing = Timing::default();
            change(&mut timing);
            timing.is_valid()
        };
        assert!(with(|_| ()));
        assert!(!with(|timing| timing.retry = Duration::ZERO));
        assert!(!with(|timing| timing.refresh = Duration::ZERO));
        assert!(!with(|timing| timing.retry_max = Duration::from_nanos(1)));
        assert!(!with(|timing| timing.hold = Duration::MAX));
        assert!(with(|timing| timing.linger = Duration::from_secs(6)));
        assert!(!with(|timing| timing.linger = Duration::from_secs(5)));
    }
}
