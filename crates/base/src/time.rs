//! Time as an argument of state machines.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// Point in time, in nanoseconds since the driver (a simulation or a process) started.
///
/// Unlike `std::time::Instant` it can be constructed at zero, so that a simulation gives the same result on every
/// run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// Start of time.
    pub const ZERO: Self = Self(0);
    /// Time that is never reached; the deadline of a disabled timer.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the time `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the seconds since the start, for display.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the time elapsed since `earlier`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, by: Duration) {
        *self = *self + by;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:09}s",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000
        )
    }
}
