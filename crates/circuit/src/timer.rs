//! Timer of a circuit, with which a device closes the circuit by itself, even if its agent is lost.

use std::time::Duration;

use lighthaul_base::Instant;

/// Timer of an open circuit as it was set last.
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

    /// Returns the timer after an attempt to set it again has failed at `now`.
    #[must_use]
    pub const fn retried(self, now: Instant) -> Self {
        Self {
            set_at: now,
            end: self.end,
        }
    }

    /// Returns the time at which the timer has to be set again, so that the circuit stays open until `till`.
    pub fn renew_at(self, till: Instant) -> Instant {
        if till <= self.end {
            return Instant::NEVER;
        }
        self.set_at + (self.end.since(self.set_at) / 2).max(RENEWAL_MIN)
    }
}

/// Time by which a timer ends after the planned change, which the agent makes first.
pub const TIMER_SLACK: Duration = Duration::from_secs(5);
/// Shortest setting of a timer, as the longest one of a device.
pub const TIMER_MAX_MIN: Duration = Duration::from_secs(4);
/// Shortest time between two settings of a timer.
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
