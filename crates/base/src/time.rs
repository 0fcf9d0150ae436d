//! Time as machines are told it.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// A moment, in nanoseconds since its world began.
///
/// Unlike `std::time::Instant` it can be made at zero, so a simulation is the same on every run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The moment the world began.
    pub const ZERO: Self = Self(0);
    /// A moment that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment `nanos` nanoseconds after the world began.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the world began.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the world began, for people.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// How long after `earlier` this is; zero if it is not after it.
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
