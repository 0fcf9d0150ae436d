//! Timer by which a device itself closes a circuit, even if its agent is lost.

use core::time::Duration;

use lighthaul_base::Instant;

/// Latest timer of an open circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    set_at: Instant,
    end: Instant,
}

impl Timer {
    /// Returns a timer that was set to `time` at `now`.
    pub fn set(now: Instant, time: Duration) -> Self {
        Self {
            set_at: now,
            end: now + time,
        }
    }

    /// Returns the timer after a failed attempt to renew it at `now`.
    #[must_use]
    pub const fn retried(self, now: Instant) -> Self {
        Self {
            set_at: now,
            end: self.end,
        }
    }

    /// Returns the time at which the timer must be renewed, so that the circuit stays open until `till`.
    pub fn renew_at(self, till: Instant) -> Instant {
        if till <= self.end {
            return Instant::NEVER;
        }
        self.set_at + (self.end.since(self.set_at) / 2).max(RENEWAL_MIN)
    }
}

/// Time between the planned change by the agent and the end of the timer.
pub const TIMER_SLACK: Duration = Duration::from_secs(5);
/// Minimum for the longest timer that a device offers.
pub const TIMER_MAX_MIN: Duration = Duration::from_secs(4);
/// Minimum time between two renewals of a timer.
const RENEWAL_MIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    #[test]
    fn timer_is_set_again_at_half_of_its_time_if_the_circuit_stays_open_longer() {
        let timer = Timer::set(at(10), Duration::from_mins(1));
        assert_eq!(timer.renew_at(at(70)), Instant::NEVER);
        assert_eq!(timer.renew_at(at(71)), at(40));
        assert_eq!(timer.retried(at(40)).renew_at(at(71)), at(55));
        assert_eq!(timer.retried(at(70)).renew_at(at(71)), at(71));
    }
}
