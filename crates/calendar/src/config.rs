//! Limits and rules of a calendar.
//!
//! A [`Config`] bounds the horizon, the number of bookings, the paths of a search and the steps of
//! a grant. [`Config::check`] returns a [`ConfigError`] for a value out of range. Times of new
//! bookings are multiples of the slot: starts are rounded up, and the horizon is rounded down.
//! Shares are thousandths of each link.

use alloc::collections::BTreeMap;
use core::fmt;
use core::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::trc::STEPS_MAX;

use crate::resource::Owner;

/// Limits and rules of a calendar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Maximum time from the present to the end of a booking.
    pub horizon: Duration,
    /// Unit of start and end times, 1 ns for no rounding. It should be at most a twentieth of a
    /// transfer.
    pub slot: Duration,
    /// Maximum number of paths that are tried between two nodes.
    pub paths_max: usize,
    /// Maximum number of bookings at one time.
    pub bookings_max: usize,
    /// Maximum number of steps in a booking.
    pub steps_max: usize,
    /// Thousandths of each link that are kept for an owner.
    pub shares: BTreeMap<Owner, u16>,
}

impl Default for Config {
    /// Thirty days, slots of 1 ns, four paths, two million bookings, no shares.
    fn default() -> Self {
        Self {
            horizon: Duration::from_hours(24 * 30),
            slot: Duration::from_nanos(1),
            paths_max: 4,
            bookings_max: 2_000_000,
            steps_max: STEPS_MAX,
            shares: BTreeMap::new(),
        }
    }
}

impl Config {
    /// Checks that each value is within its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.slot.is_zero() || self.slot > HORIZON_MAX {
            return Err(ConfigError::Slot(self.slot));
        }
        if self.horizon < self.slot || self.horizon > HORIZON_MAX {
            return Err(ConfigError::Horizon(self.horizon));
        }
        if !(1..=PATHS_MAX).contains(&self.paths_max) {
            return Err(ConfigError::Paths(self.paths_max));
        }
        if self.bookings_max == 0 {
            return Err(ConfigError::Bookings);
        }
        if !(1..=STEPS_MAX).contains(&self.steps_max) {
            return Err(ConfigError::Steps(self.steps_max));
        }
        let kept: u64 = self.shares.values().map(|share| u64::from(*share)).sum();
        if kept > 1000 || self.shares.len() > SHARES_MAX {
            return Err(ConfigError::Shares(kept));
        }
        Ok(())
    }

    /// Returns the first slot boundary at or after `at`.
    pub(crate) fn slot_from(&self, at: Instant) -> Instant {
        let slot = self.slot_nanos();
        at.as_nanos()
            .checked_next_multiple_of(slot)
            .map_or(Instant::NEVER, Instant::from_nanos)
    }

    /// Returns the last slot boundary at or before `at`.
    pub(crate) fn slot_until(&self, at: Instant) -> Instant {
        let nanos = at.as_nanos();
        Instant::from_nanos(nanos - nanos % self.slot_nanos())
    }

    /// Returns the time by which every booking made at `now` must end.
    pub(crate) fn horizon_at(&self, now: Instant) -> Instant {
        self.slot_until(now + self.horizon)
    }

    pub(crate) const fn slot_nanos(&self) -> u64 {
        self.slot.as_nanos() as u64
    }
}

/// Configuration value that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// Slot of zero, or longer than ten years.
    Slot(Duration),
    /// Horizon shorter than a slot, or longer than ten years.
    Horizon(Duration),
    /// Number of paths that is zero or too high.
    Paths(usize),
    /// Maximum of zero bookings.
    Bookings,
    /// Maximum of zero steps, or of more than a TRC vector has.
    Steps(usize),
    /// The shares have more than 1000 thousandths in total, or too many owners; the sum is given here.
    Shares(u64),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(slot) => write!(f, "slot of {slot:?} is out of range: use 1ns to ten years"),
            Self::Horizon(horizon) => write!(
                f,
                "horizon of {horizon:?} is out of range: use one slot to ten years"
            ),
            Self::Paths(paths) => write!(
                f,
                "number of paths {paths} is out of range: use 1 to {PATHS_MAX}"
            ),
            Self::Bookings => write!(f, "the maximum number of bookings is zero: use at least 1"),
            Self::Steps(steps) => write!(
                f,
                "maximum number of steps {steps} is out of range: use 1 to {STEPS_MAX}"
            ),
            Self::Shares(kept) => write!(
                f,
                "shares of {kept} thousandths are out of range: use at most 1000 in all, for at most {SHARES_MAX} owners"
            ),
        }
    }
}

impl core::error::Error for ConfigError {}

const HORIZON_MAX: Duration = Duration::from_hours(24 * 3660);
const PATHS_MAX: usize = 64;
const SHARES_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn values_out_of_range_are_refused() {
        let with = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config.check()
        };
        assert_eq!(with(|_| ()), Ok(()));
        for (refused, misuse) in [
            (
                with(|c| c.slot = Duration::ZERO),
                ConfigError::Slot(Duration::ZERO),
            ),
            (
                with(|c| c.horizon = Duration::MAX),
                ConfigError::Horizon(Duration::MAX),
            ),
            (
                with(|c| c.slot = c.horizon * 2),
                ConfigError::Horizon(Config::default().horizon),
            ),
            (with(|c| c.paths_max = 0), ConfigError::Paths(0)),
            (with(|c| c.bookings_max = 0), ConfigError::Bookings),
            (with(|c| c.steps_max = 5000), ConfigError::Steps(5000)),
            (
                with(|c| c.shares = [(Owner(1), 600), (Owner(2), 401)].into()),
                ConfigError::Shares(1001),
            ),
        ] {
            assert_eq!(refused, Err(misuse));
            assert!(!misuse.to_string().is_empty());
        }
    }
}
