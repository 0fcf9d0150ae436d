//! What a calendar is like.

use alloc::collections::BTreeMap;
use core::fmt;
use core::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::trc::STEPS_MAX;

use crate::stock::Owner;

/// A calendar's bounds and rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How far ahead a booking may end.
    pub horizon: Duration,
    /// What moments are multiples of; a nanosecond if any will do. It should be a twentieth of a transfer or less.
    pub slot: Duration,
    /// How many paths between two nodes are tried.
    pub paths_max: usize,
    /// How many bookings there may be at once.
    pub bookings_max: usize,
    /// How many steps a booking may have.
    pub steps_max: usize,
    /// How many thousandths of every link are kept for an owner.
    pub shares: BTreeMap<Owner, u16>,
}

impl Default for Config {
    /// Thirty days, any moment, four paths, two million bookings, no shares.
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
    /// Tells whether a calendar can be made of this.
    pub fn check(&self) -> Result<(), Misuse> {
        if self.slot.is_zero() || self.slot > HORIZON_MAX {
            return Err(Misuse::Slot(self.slot));
        }
        if self.horizon < self.slot || self.horizon > HORIZON_MAX {
            return Err(Misuse::Horizon(self.horizon));
        }
        if !(1..=PATHS_MAX).contains(&self.paths_max) {
            return Err(Misuse::Paths(self.paths_max));
        }
        if self.bookings_max == 0 {
            return Err(Misuse::Bookings);
        }
        if !(1..=STEPS_MAX).contains(&self.steps_max) {
            return Err(Misuse::Steps(self.steps_max));
        }
        let kept: u64 = self.shares.values().map(|share| u64::from(*share)).sum();
        if kept > 1000 || self.shares.len() > SHARES_MAX {
            return Err(Misuse::Shares(kept));
        }
        Ok(())
    }

    /// The first moment from `at` on that a booking may begin or end at.
    pub(crate) fn slot_from(&self, at: Instant) -> Instant {
        let slot = self.slot_nanos();
        at.as_nanos()
            .checked_next_multiple_of(slot)
            .map_or(Instant::NEVER, Instant::from_nanos)
    }

    /// The last such moment until `at`.
    pub(crate) fn slot_until(&self, at: Instant) -> Instant {
        let nanos = at.as_nanos();
        Instant::from_nanos(nanos - nanos % self.slot_nanos())
    }

    /// The moment at which everything booked at `now` must be over.
    pub(crate) fn horizon_at(&self, now: Instant) -> Instant {
        self.slot_until(now + self.horizon)
    }

    pub(crate) const fn slot_nanos(&self) -> u64 {
        self.slot.as_nanos() as u64
    }
}

/// What cannot be made into a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// Slots of nothing, or of years.
    Slot(Duration),
    /// A horizon of less than a slot, or of centuries.
    Horizon(Duration),
    /// No path, or very many.
    Paths(usize),
    /// Room for no booking.
    Bookings,
    /// No step, or more than a TRC vector has.
    Steps(usize),
    /// Shares that are more than the whole: so many thousandths.
    Shares(u64),
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(slot) => write!(
                f,
                "slots of {slot:?} cannot be: they have at least 1ns and at most ten years"
            ),
            Self::Horizon(horizon) => write!(
                f,
                "a calendar cannot reach {horizon:?} ahead: at least one slot and at most ten years"
            ),
            Self::Paths(paths) => write!(
                f,
                "{paths} paths cannot be tried: at least one and at most {PATHS_MAX}"
            ),
            Self::Bookings => write!(f, "a calendar has room for at least one booking"),
            Self::Steps(steps) => write!(
                f,
                "a booking cannot have up to {steps} steps: at least one and at most {STEPS_MAX}"
            ),
            Self::Shares(kept) => write!(
                f,
                "shares of {kept} thousandths cannot be kept: together at most 1000, of at most {SHARES_MAX} owners"
            ),
        }
    }
}

impl core::error::Error for Misuse {}

const HORIZON_MAX: Duration = Duration::from_hours(24 * 3660);
const PATHS_MAX: usize = 64;
const SHARES_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn what_cannot_be_is_refused() {
        let with = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config.check()
        };
        assert_eq!(with(|_| ()), Ok(()));
        for (refused, misuse) in [
            (
                with(|c| c.slot = Duration::ZERO),
                Misuse::Slot(Duration::ZERO),
            ),
            (
                with(|c| c.horizon = Duration::MAX),
                Misuse::Horizon(Duration::MAX),
            ),
            (
                with(|c| c.slot = c.horizon * 2),
                Misuse::Horizon(Config::default().horizon),
            ),
            (with(|c| c.paths_max = 0), Misuse::Paths(0)),
            (with(|c| c.bookings_max = 0), Misuse::Bookings),
            (with(|c| c.steps_max = 5000), Misuse::Steps(5000)),
            (
                with(|c| c.shares = [(Owner(1), 600), (Owner(2), 401)].into()),
                Misuse::Shares(1001),
            ),
        ] {
            assert_eq!(refused, Err(misuse));
            assert!(!misuse.to_string().is_empty());
        }
    }
}
