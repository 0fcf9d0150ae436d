//! Attempts to move reservations into freed capacity, and the limits on the work of an attempt.
//!
//! `Repack` is a token bucket. A token is one step of the calendar that an attempt may examine. The
//! bucket gains a token each 30 microseconds, and holds 32,768 at most. Each booking that an
//! attempt examines costs 32 tokens more. `start` returns the limits of an attempt if one is due,
//! and `finish` counts its cost. The attempt itself is in the calendar.

use lighthaul_booking_client::json::Timestamp;
use lighthaul_calendar::RepackLimits;

/// Next attempt to move reservations forward in time.
///
/// The number of steps that attempts may examine grows with time up to a maximum.
#[derive(Debug)]
pub(super) struct Repack {
    /// True if capacity was freed.
    pub(super) is_due: bool,
    /// Number of steps that an attempt may examine.
    steps: usize,
    /// Time at which `steps` was computed.
    at: Timestamp,
}

impl Repack {
    /// Starts an attempt to place `bookings` bookings again, if one is due. Returns its limits. Zero disables it.
    pub(super) fn start(&mut self, now: Timestamp, bookings: usize) -> Option<RepackLimits> {
        if !std::mem::take(&mut self.is_due) || bookings == 0 {
            return None;
        }
        let last = std::mem::replace(&mut self.at, now).0;
        let refill = now.0.saturating_sub(last) / NANOS_PER_STEP;
        let refill = usize::try_from(refill).unwrap_or(usize::MAX);
        self.steps = self.steps.saturating_add(refill).min(STEPS_MAX);
        Some(RepackLimits {
            bookings,
            steps: self.steps,
        })
    }

    /// Ends an attempt that began with the limits `had` and did not use `left` of them. It
    /// continues later if it had fewer steps than the maximum and used all of them.
    pub(super) const fn finish(&mut self, had: RepackLimits, left: RepackLimits) {
        let bookings = had.bookings - left.bookings;
        self.steps = left.steps.saturating_sub(bookings * STEPS_EACH);
        self.is_due = left.steps == 0 && had.steps < STEPS_MAX;
    }
}

impl Default for Repack {
    fn default() -> Self {
        Self {
            is_due: false,
            steps: STEPS_MAX,
            at: Timestamp(0),
        }
    }
}

/// Maximum number of steps that one attempt examines.
const STEPS_MAX: usize = 1 << 15;
/// Number of steps that a booking counts for, in addition to its steps.
const STEPS_EACH: usize = 32;
/// Time after which an attempt may examine one more step, in nanoseconds. About 33,000 steps a
/// second leave the calendar usable when a client books and cancels all the time.
const NANOS_PER_STEP: u64 = 30_000;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000_000_000);

    /// Returns an attempt that is due now, after earlier ones have left this number of steps.
    fn due(steps: usize) -> Repack {
        Repack {
            is_due: true,
            steps,
            at: NOW,
        }
    }

    const fn limits(bookings: usize, steps: usize) -> RepackLimits {
        RepackLimits { bookings, steps }
    }

    #[test]
    fn attempt_starts_only_once_each_time_capacity_is_freed() {
        let mut repack = Repack::default();
        assert_eq!(repack.start(NOW, 10), None);
        repack.is_due = true;
        assert_eq!(repack.start(NOW, 10), Some(limits(10, STEPS_MAX)));
        assert_eq!(repack.start(NOW, 10), None);
    }

    #[test]
    fn attempt_for_no_bookings_does_not_start() {
        assert_eq!(due(100).start(NOW, 0), None);
    }

    #[test]
    fn attempts_may_examine_one_more_step_each_30_microseconds_up_to_the_maximum() {
        let steps_after = |nanos| {
            let later = Timestamp(NOW.0 + nanos);
            due(100).start(later, 10).unwrap().steps
        };
        for (nanos, steps) in [
            (0, 100),
            (29_999, 100),
            (30_000, 101),
            (300_000_000, 10_100),
            (u64::MAX - NOW.0, STEPS_MAX),
        ] {
            assert_eq!(steps_after(nanos), steps, "after {nanos} ns");
        }
        // time counts once, and steps remain without an attempt
        let mut repack = due(100);
        let later = Timestamp(NOW.0 + 60_000);
        assert_eq!(repack.start(later, 10), Some(limits(10, 102)));
        repack.is_due = true;
        assert_eq!(repack.start(later, 10), Some(limits(10, 102)));
        // a clock that was set back adds nothing
        repack.is_due = true;
        assert_eq!(repack.start(NOW, 10), Some(limits(10, 102)));
    }

    #[test]
    fn each_booking_costs_32_additional_steps() {
        let mut repack = due(1000);
        let had = repack.start(NOW, 10).unwrap();
        // three bookings of two steps each
        repack.finish(had, limits(7, 994));
        assert!(!repack.is_due);
        repack.is_due = true;
        assert_eq!(repack.start(NOW, 10), Some(limits(10, 994 - 96)));
        // the last booking may cost more than is left
        repack.finish(limits(10, 898), limits(9, 20));
        repack.is_due = true;
        assert_eq!(repack.start(NOW, 10), Some(limits(10, 0)));
    }

    #[test]
    fn attempt_without_enough_steps_continues_when_steps_are_available() {
        let mut repack = due(STEPS_MAX - 1);
        let had = repack.start(NOW, 10).unwrap();
        repack.finish(had, limits(8, 0));
        assert!(repack.is_due);
        // it has placed all bookings
        let later = Timestamp(NOW.0 + 30_000_000);
        let had = repack.start(later, 10).unwrap();
        assert_eq!(had.steps, 1000);
        repack.finish(had, limits(8, 1));
        assert!(!repack.is_due);
    }

    /// The next attempt would begin with the same bookings, and never reach the others.
    #[test]
    fn attempt_for_which_the_maximum_is_too_small_does_not_continue() {
        let mut repack = due(STEPS_MAX);
        let had = repack.start(NOW, 1000).unwrap();
        repack.finish(had, limits(900, 0));
        assert!(!repack.is_due);
    }
}
