//! Wall-clock time, which several hosts share, and the steps of the clock.
//!
//! [`WallClock`] compares it with the monotonic clock at each look. A clock that is slewed passes; one that is set does
//! not. The monotonic clock stands still while the host is suspended, so that counts as a step too.

use std::time::Duration;

use crate::host::clock::{Clock, unix_nanos};
use lighthaul_base::Instant;

/// Returns the time in nanoseconds since 1970.
pub fn wall_now() -> Instant {
    Instant::from_nanos(unix_nanos())
}

/// Wall clock that detects steps of the system clock.
#[derive(Clone, Debug)]
pub struct WallClock {
    monotonic: Clock,
    /// Longest step that passes.
    tolerance: Duration,
    /// Wall-clock time and monotonic time of the last look.
    last: (Instant, Instant),
    start: Instant,
}

/// Step of the wall clock since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockStep {
    /// Time that a clock without the step would show.
    pub expected: Instant,
    /// Length of the step.
    pub len: Duration,
    /// True if the clock was set forward.
    pub is_forward: bool,
}

impl WallClock {
    /// Returns a clock that reports steps of more than `tolerance`, and of more than one second.
    pub fn start(tolerance: Duration) -> Self {
        let (monotonic, start) = (Clock::start(), wall_now());
        Self {
            monotonic,
            tolerance: tolerance.max(TOLERANCE_MIN),
            last: (start, Instant::ZERO),
            start,
        }
    }

    /// Returns the time, or the step if the clock was set since the last look.
    pub fn now(&mut self) -> Result<Instant, ClockStep> {
        let monotonic = self.monotonic.now();
        self.look(wall_now(), monotonic)
    }

    /// Returns the time. The steps of the clock are left out until it is set back.
    pub fn steady_now(&mut self) -> Instant {
        self.now().unwrap_or_else(|step| step.expected)
    }

    /// Returns the monotonic time since the start.
    pub fn elapsed(&self) -> Duration {
        self.monotonic.now().since(Instant::ZERO)
    }

    /// Returns the wall-clock time of the start and the monotonic time since then.
    pub fn since_start(&self) -> Instant {
        self.start + self.elapsed()
    }

    fn look(&mut self, wall: Instant, monotonic: Instant) -> Result<Instant, ClockStep> {
        let (last_wall, last_monotonic) = self.last;
        let expected = last_wall + monotonic.since(last_monotonic);
        let (forward, back) = (wall.since(expected), expected.since(wall));
        let step = ClockStep {
            expected,
            len: forward.max(back),
            is_forward: forward > back,
        };
        let is_step = step.len > self.tolerance;
        self.last = (if is_step { expected } else { wall }, monotonic);
        if is_step { Err(step) } else { Ok(wall) }
    }
}

/// Least tolerance: a busy host may wait that long between two readings of its clocks.
const TOLERANCE_MIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_steps_are_reported_and_slow_corrections_are_accepted() {
        let mut clock = WallClock::start(Duration::from_secs(3));
        let base = clock.last.0;
        let at = |secs: u64| Instant::ZERO + Duration::from_secs(secs);
        let mut look = |wall: u64, monotonic: u64| {
            let looked = clock.look(base + Duration::from_secs(wall), at(monotonic));
            looked.map(|now| now.since(base).as_secs())
        };
        assert_eq!(look(10, 10), Ok(10));
        // the clock gains two seconds with each look
        assert_eq!(look(22, 20), Ok(22));
        assert_eq!(look(34, 30), Ok(34));
        let step = |expected, len, is_forward| {
            Err(ClockStep {
                expected: base + Duration::from_secs(expected),
                len: Duration::from_secs(len),
                is_forward,
            })
        };
        assert_eq!(look(48, 40), step(44, 4, true));
        assert_eq!(look(58, 50), step(54, 4, true));
        assert_eq!(look(50, 60), step(64, 14, false));
        assert_eq!(look(74, 70), Ok(74), "it was set back");
    }
}
