//! What one owner can have of all links of a path at once, from a moment on.

use alloc::vec::Vec;

use lighthaul_base::Instant;

use crate::cursor::Cursor;

/// The least of its legs, without a function of its own: it leaps from change to change.
#[derive(Clone, Debug)]
pub(crate) struct View<'a> {
    legs: Vec<Leg<'a>>,
    now: Instant,
}

/// What one link has.
#[derive(Clone, Debug)]
pub(crate) enum Leg<'a> {
    /// A capacity function.
    Plain(Cursor<'a>),
    /// What is open, and what is left of the link for an owner, of which `others` are not its share.
    Shared {
        open: Cursor<'a>,
        left: Cursor<'a>,
        others: u64,
    },
    /// A capacity function without `less` of it.
    Beyond { left: Cursor<'a>, less: u64 },
}

impl<'a> View<'a> {
    /// A view over legs that are all at `now`; at least one.
    pub(crate) const fn new(legs: Vec<Leg<'a>>, now: Instant) -> Self {
        Self { legs, now }
    }

    /// The moment that it is at.
    pub(crate) const fn now(&self) -> Instant {
        self.now
    }

    /// What is free there.
    pub(crate) fn free(&self) -> u64 {
        self.legs.iter().map(Leg::free).min().unwrap_or(0)
    }

    /// A moment until which that is free.
    pub(crate) fn till(&self) -> Instant {
        self.legs
            .iter()
            .map(Leg::till)
            .min()
            .unwrap_or(Instant::NEVER)
    }

    /// Goes on to a later moment.
    pub(crate) fn seek(&mut self, at: Instant) {
        self.now = at;
        self.legs.iter_mut().for_each(|leg| leg.seek(at));
    }

    /// Goes on to the first moment when at least `bps` are free; perhaps never.
    pub(crate) fn seek_at_least(&mut self, bps: u64) {
        while self.now < Instant::NEVER {
            let firsts = self.legs.iter().map(|leg| leg.next_at_least(bps));
            let first = firsts.max().unwrap_or(Instant::NEVER);
            if first == self.now {
                break;
            }
            self.seek(first);
        }
    }

    /// The first moment from here on when less than `bps` are free.
    pub(crate) fn next_below(&self, bps: u64) -> Instant {
        let firsts = self.legs.iter().map(|leg| leg.next_below(bps));
        firsts.min().unwrap_or(Instant::NEVER)
    }

    /// The least that is free from here until a moment, and at it.
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
            Self::Beyond { left, less } => left.free().saturating_sub(*less),
        }
    }

    fn till(&self) -> Instant {
        match self {
            Self::Plain(cursor) => cursor.till(),
            Self::Shared { open, left, .. } => open.till().min(left.till()),
            Self::Beyond { left, .. } => left.till(),
        }
    }

    fn seek(&mut self, at: Instant) {
        match self {
            Self::Plain(cursor) => cursor.seek(at),
            Self::Shared { open, left, .. } => {
                open.seek(at);
                left.seek(at);
            }
            Self::Beyond { left, .. } => left.seek(at),
        }
    }

    fn next_at_least(&self, bps: u64) -> Instant {
        match self {
            Self::Plain(cursor) => cursor.next_at_least(bps),
            Self::Shared { .. } => self.next(|free| free >= bps),
            Self::Beyond { left, .. } if bps == 0 => left.now(),
            Self::Beyond { left, less } => less
                .checked_add(bps)
                .map_or(Instant::NEVER, |bps| left.next_at_least(bps)),
        }
    }

    fn next_below(&self, bps: u64) -> Instant {
        match self {
            Self::Plain(cursor) => cursor.next_below(bps),
            Self::Shared { .. } => self.next(|free| free < bps),
            Self::Beyond { .. } if bps == 0 => Instant::NEVER,
            Self::Beyond { left, less } => less
                .checked_add(bps)
                .map_or_else(|| left.now(), |bps| left.next_below(bps)),
        }
    }

    /// The first moment when what is free is wanted. The least of a sum is not the sum of the least, so no blocks are skipped.
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
            Self::Plain(cursor) | Self::Beyond { left: cursor, .. } => cursor.now(),
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
    fn limit_leaves_what_its_function_has_beyond_some_of_it() {
        let mut left = Capacity::new(u64::MAX);
        let less = u64::MAX - 10;
        left.take(at(5), at(9), 4);
        // more than there is of the limit
        left.take(at(9), at(12), 30);
        let leg = Leg::Beyond {
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
