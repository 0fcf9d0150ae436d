//! Capacity that one owner can use on all links of a path, from a time on.
//!
//! A `View` is the minimum of its legs. A `Leg` is one resource: a capacity function, a link with a
//! share, or a function minus a constant. Time only moves forward: searches call `seek` and read
//! `free` and `till`. The minimum is never stored, so a view costs no memory per step, and a search
//! pays for the steps that it crosses. Rates are in bits per second.

use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::Instant;

use crate::cursor::Cursor;

/// Minimum over the links of a path. It is computed on demand, by moving from one change to the
/// next.
#[derive(Clone, Debug)]
pub(crate) struct View<'a> {
    legs: Vec<Leg<'a>>,
    now: Instant,
    /// Time for which a rate must stay free after its use.
    trail: Duration,
}

/// Capacity of one link.
#[derive(Clone, Debug)]
pub(crate) enum Leg<'a> {
    /// A single capacity function.
    Plain(Cursor<'a>),
    /// A link on which the owner has a share: open capacity, plus the unused part of the share.
    ///
    /// The rest is what exceeds `others` in the capacity `left` that the owner has not booked.
    Shared {
        open: Cursor<'a>,
        left: Cursor<'a>,
        others: u64,
    },
    /// A capacity function minus a constant.
    Reduced { left: Cursor<'a>, less: u64 },
}

impl<'a> View<'a> {
    /// Returns a view at `now` over at least one leg, each at `now`.
    pub(crate) const fn new(legs: Vec<Leg<'a>>, now: Instant) -> Self {
        let trail = Duration::ZERO;
        Self { legs, now, trail }
    }

    /// Returns the view of capacity that stays free for `trail` longer: at each moment the lowest rate until then.
    pub(crate) fn with_trail(self, trail: Duration) -> Self {
        Self { trail, ..self }
    }

    /// Returns the current time of the view.
    pub(crate) const fn now(&self) -> Instant {
        self.now
    }

    /// Returns the free rate at that time, in bits a second.
    pub(crate) fn free(&self) -> u64 {
        if self.trail.is_zero() {
            return self.least();
        }
        self.raw().least_until(self.now + self.trail)
    }

    /// Returns the time until which the free rate is known to stay equal.
    pub(crate) fn till(&self) -> Instant {
        let till = self.next();
        if self.trail.is_zero() {
            return till;
        }
        let mut ahead = self.raw();
        ahead.seek(self.now + self.trail);
        till.min(self.before(ahead.next()))
    }

    /// Returns the free rate of the legs.
    fn least(&self) -> u64 {
        self.legs.iter().map(Leg::free).min().unwrap_or(0)
    }

    /// Returns the time until which all legs of the view are known to stay equal.
    fn next(&self) -> Instant {
        let tills = self.legs.iter().map(Leg::till);
        tills.min().unwrap_or(Instant::NEVER)
    }

    /// Returns the same view without a trail.
    fn raw(&self) -> Self {
        self.clone().with_trail(Duration::ZERO)
    }

    /// Returns the time at which a change of the legs is first seen.
    fn before(&self, change: Instant) -> Instant {
        if change == Instant::NEVER {
            return change;
        }
        self.now.max(change - self.trail)
    }

    /// Advances to a later time.
    pub(crate) fn seek(&mut self, at: Instant) {
        self.now = at;
        self.legs.iter_mut().for_each(|leg| leg.seek(at));
    }

    /// Advances to the first time with at least `bps` free, which may be [`Instant::NEVER`].
    pub(crate) fn seek_at_least(&mut self, bps: u64) {
        while self.now < Instant::NEVER {
            let firsts = self.legs.iter().map(|leg| leg.next_at_least(bps));
            let first = firsts.max().unwrap_or(Instant::NEVER);
            if first > self.now {
                self.seek(first);
                continue;
            }
            let below = self.raw().next_below(bps);
            if self.trail.is_zero() || below > self.now + self.trail {
                break;
            }
            self.seek(below);
        }
    }

    /// Returns the first time from here on with less than `bps` free.
    pub(crate) fn next_below(&self, bps: u64) -> Instant {
        let firsts = self.legs.iter().map(|leg| leg.next_below(bps));
        self.before(firsts.min().unwrap_or(Instant::NEVER))
    }

    /// Returns the lowest free rate from now until a time, inclusive.
    pub(crate) fn least_until(&self, till: Instant) -> u64 {
        let mut view = self.clone();
        let mut least = view.free();
        while view.till() <= till && least > 0 {
            view.seek(view.till());
            least = least.min(view.free());
        }
        least
    }
}

impl Leg<'_> {
    fn free(&self) -> u64 {
        match self {
            Self::Plain(cursor) => cursor.free(),
            Self::Shared { open, left, others } => {
                open.free() + left.free().saturating_sub(*others)
            }
            Self::Reduced { left, less } => left.free().saturating_sub(*less),
        }
    }

    fn till(&self) -> Instant {
        match self {
            Self::Plain(cursor) => cursor.till(),
            Self::Shared { open, left, .. } => open.till().min(left.till()),
            Self::Reduced { left, .. } => left.till(),
        }
    }

    fn seek(&mut self, at: Instant) {
        match self {
            Self::Plain(cursor) => cursor.seek(at),
            Self::Shared { open, left, .. } => {
                open.seek(at);
                left.seek(at);
            }
            Self::Reduced { left, .. } => left.seek(at),
        }
    }

    fn next_at_least(&self, bps: u64) -> Instant {
        match self {
            Self::Plain(cursor) => cursor.next_at_least(bps),
            Self::Shared { .. } => self.next(|free| free >= bps),
            Self::Reduced { left, .. } if bps == 0 => left.now(),
            Self::Reduced { left, less } => less
                .checked_add(bps)
                .map_or(Instant::NEVER, |bps| left.next_at_least(bps)),
        }
    }

    fn next_below(&self, bps: u64) -> Instant {
        match self {
            Self::Plain(cursor) => cursor.next_below(bps),
            Self::Shared { .. } => self.next(|free| free < bps),
            Self::Reduced { .. } if bps == 0 => Instant::NEVER,
            Self::Reduced { left, less } => less
                .checked_add(bps)
                .map_or_else(|| left.now(), |bps| left.next_below(bps)),
        }
    }

    /// Returns the first time at which the free rate is `wanted`. It visits every step: the minimum
    /// of a sum is not the sum of the minimums, so block summaries do not apply.
    fn next(&self, wanted: impl Fn(u64) -> bool) -> Instant {
        let mut leg = self.clone();
        while !wanted(leg.free()) {
            let till = leg.till();
            if till == Instant::NEVER {
                return till;
            }
            leg.seek(till);
        }
        match leg {
            Self::Plain(cursor) | Self::Reduced { left: cursor, .. } => cursor.now(),
            Self::Shared { open, .. } => open.now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::Capacity;
    use alloc::vec;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn limit_is_a_capacity_function_minus_a_constant() {
        let mut left = Capacity::new(u64::MAX);
        let less = u64::MAX - 10;
        left.take(at(5), at(9), 4);
        // takes more than the limit has
        left.take(at(9), at(12), 30);
        let leg = Leg::Reduced {
            left: left.cursor(at(0)),
            less,
        };
        let mut view = View::new(vec![leg.clone()], at(0));
        let mut seen = Vec::new();
        while view.now() < Instant::NEVER {
            seen.push((view.now(), view.free()));
            view.seek(view.till());
        }
        assert_eq!(seen, [(at(0), 10), (at(5), 6), (at(9), 0), (at(12), 10)]);
        let below = |bps| leg.next_below(bps);
        assert_eq!([7, 6, 0].map(below), [at(5), at(9), Instant::NEVER]);
        assert_eq!([11, u64::MAX].map(below), [at(0), at(0)]);
        let full = View::new(vec![leg], at(0));
        let from = |moment, bps| {
            let mut view = full.clone();
            view.seek(at(moment));
            view.seek_at_least(bps);
            view.now()
        };
        assert_eq!(
            [from(0, 10), from(5, 6), from(5, 7)],
            [at(0), at(5), at(12)]
        );
        assert_eq!(
            [from(9, 1), from(9, 0), from(0, 11)],
            [at(12), at(9), Instant::NEVER]
        );
    }
}
