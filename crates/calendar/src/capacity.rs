//! Free rate of one link over time, in a structure that stays fast with a million steps.
//!
//! [`Capacity`] is a step function from time to bits per second, and [`Free`] is one of its steps.
//! A booking takes rate from a range of time, and gives back what is released. The free rate is
//! never negative and never above the whole rate: the functions panic before that. The type knows
//! nothing of owners, paths or channels. `blocks` stores the steps and `cursor` reads them in
//! order.

use lighthaul_base::Instant;

use crate::blocks::Blocks;
use crate::cursor::Cursor;

/// Capacity function gamma(t) of the paper (section 3): the free rate in bits a second between
/// change points. After the last point the whole rate is free.
///
/// Adjacent steps of equal rate are merged. Steps are stored in blocks that know their lowest and
/// highest free rate: queries skip blocks, and a change of a whole block only changes its offset.
///
/// The paper uses a list, which each request walks from its beginning. A tree of single points
/// spends more time on its nodes than these arrays on moving their ends.
#[derive(Clone, Debug)]
pub struct Capacity {
    whole: u64,
    blocks: Blocks,
}

/// Time range with a constant free rate, which may be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Free {
    /// Start of the interval.
    pub from: Instant,
    /// End, exclusive; [`Instant::NEVER`] after the last booking.
    pub till: Instant,
    /// Free rate in bits a second.
    pub bps: u64,
}

impl Capacity {
    /// Returns an unbooked link of `bps` bits a second.
    pub fn new(bps: u64) -> Self {
        Self {
            whole: bps,
            blocks: Blocks::new(bps),
        }
    }

    /// Returns the rate when nothing is booked.
    pub const fn whole(&self) -> u64 {
        self.whole
    }

    /// Returns the free rate at a time.
    pub fn at(&self, at: Instant) -> u64 {
        self.cursor(at).free()
    }

    /// Returns the steps in `from..till` in order.
    pub fn steps(&self, from: Instant, till: Instant) -> impl Iterator<Item = Free> + '_ {
        let mut cursor = self.cursor(from);
        core::iter::from_fn(move || {
            let (now, free) = (cursor.now(), cursor.free());
            if now >= till {
                return None;
            }
            let end = cursor.till().min(till);
            cursor.seek(end);
            Some(Free {
                from: now,
                till: end,
                bps: free,
            })
        })
    }

    /// Returns the lowest free rate in `from..till`, the whole rate if the range is empty.
    pub fn least(&self, from: Instant, till: Instant) -> u64 {
        if from >= till {
            return self.whole;
        }
        self.blocks.least(from, till)
    }

    /// Returns the number of steps.
    pub fn len(&self) -> usize {
        self.blocks.points()
    }

    /// Returns true if nothing is booked.
    pub fn is_empty(&self) -> bool {
        self.blocks.least(Instant::ZERO, Instant::NEVER) == self.whole
    }

    /// Takes `bps` bits a second in `from..till`. Panics if less is free.
    pub fn take(&mut self, from: Instant, till: Instant, bps: u64) {
        self.shift(from, till, bps.wrapping_neg());
    }

    /// Frees a rate that was taken. Panics if less was taken.
    pub fn give(&mut self, from: Instant, till: Instant, bps: u64) {
        self.shift(from, till, bps);
    }

    /// Deletes the history before a time. Later queries must not be about it.
    pub fn forget(&mut self, before: Instant) {
        self.blocks.forget(before);
    }

    /// Returns a cursor at a time.
    pub(crate) fn cursor(&self, at: Instant) -> Cursor<'_> {
        Cursor::new(&self.blocks, at)
    }

    /// Adds `by` modulo 2^64 in `from..till`.
    fn shift(&mut self, from: Instant, till: Instant, by: u64) {
        if from >= till || by == 0 {
            return;
        }
        self.blocks.shift(from, till, by, self.whole);
    }
}

/// Compares the free rate at all times, regardless of the division into blocks.
impl PartialEq for Capacity {
    fn eq(&self, other: &Self) -> bool {
        self.whole == other.whole
            && self
                .steps(Instant::ZERO, Instant::NEVER)
                .eq(other.steps(Instant::ZERO, Instant::NEVER))
    }
}

impl Eq for Capacity {}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::blocks::POINTS_MAX;

    fn at(nanos: usize) -> Instant {
        Instant::from_nanos(nanos as u64)
    }

    /// Returns the free rate at each nanosecond: a simple reference implementation.
    fn array(changes: &[(usize, usize, u64)]) -> Vec<u64> {
        let mut array = vec![WHOLE; END];
        for &(from, len, bps) in changes {
            array[from..from + len]
                .iter_mut()
                .for_each(|free| *free -= bps);
        }
        array
    }

    fn of(changes: &[(usize, usize, u64)]) -> Capacity {
        let mut capacity = Capacity::new(WHOLE);
        for &(from, len, bps) in changes {
            capacity.take(at(from), at(from + len), bps);
        }
        capacity
    }

    fn changes(most: usize) -> impl Strategy<Value = Vec<(usize, usize, u64)>> {
        prop::collection::vec((0..END - 500, 0_usize..500, 0_u64..3), 0..most)
    }

    /// Asserts that the summaries of blocks agree with their points.
    fn assert_sound(capacity: &Capacity) {
        let mut before: Option<(Instant, u64)> = None;
        assert_eq!(capacity.blocks.starts.len(), capacity.blocks.rows.len());
        for (start, block) in capacity.blocks.starts.iter().zip(&capacity.blocks.rows) {
            assert_eq!(*start, block.points[0].at);
            assert!(block.points.len() <= POINTS_MAX);
            let frees: Vec<u64> = (0..block.points.len()).map(|nth| block.free(nth)).collect();
            assert_eq!(frees.iter().min(), Some(&block.least));
            assert_eq!(frees.iter().max(), Some(&block.most));
            for (point, free) in block.points.iter().zip(frees) {
                if let Some((earlier, other)) = before {
                    assert!(earlier < point.at, "points are in order");
                    assert_ne!(other, free, "equal adjacent steps are merged");
                }
                before = Some((point.at, free));
            }
        }
    }

    #[test]
    fn equal_bookings_add_up_and_adjacent_steps_are_merged() {
        let mut capacity = Capacity::new(10);
        capacity.take(at(5), at(9), 4);
        capacity.take(at(5), at(9), 4);
        assert_eq!(capacity.at(at(5)), 2);
        capacity.take(at(9), at(12), 8);
        let steps: Vec<Free> = capacity.steps(at(0), at(20)).collect();
        let step = |from, till, bps| Free {
            from: at(from),
            till: at(till),
            bps,
        };
        assert_eq!(steps, [step(0, 5, 10), step(5, 12, 2), step(12, 20, 10)]);
    }

    #[test]
    fn capacity_is_empty_before_any_booking_and_after_all_are_released() {
        let mut capacity = Capacity::new(10);
        assert_eq!((capacity.whole(), capacity.len()), (10, 1));
        assert!(capacity.is_empty());
        capacity.take(at(5), at(9), 4);
        assert_eq!((capacity.whole(), capacity.len()), (10, 3));
        assert!(!capacity.is_empty());
        capacity.give(at(5), at(9), 4);
        assert!(capacity.is_empty() && capacity.len() == 1);
        capacity.take(Instant::ZERO, Instant::NEVER, 1);
        assert!(!capacity.is_empty(), "it is booked at all times");
    }

    #[test]
    fn capacities_with_equal_free_rates_at_all_times_are_equal() {
        let capacity = of(&[(5, 10, 4), (5, 10, 3)]);
        assert_eq!(capacity, of(&[(5, 10, 7)]));
        for other in [(5, 10, 6), (5, 11, 7), (4, 11, 7)] {
            assert_ne!(capacity, of(&[other]), "{other:?}");
        }
        // as much is free at all times, but more was given out
        let mut wider = Capacity::new(WHOLE + 1);
        wider.take(Instant::ZERO, Instant::NEVER, 1);
        assert_ne!(wider, of(&[]));
    }

    #[test]
    #[should_panic(expected = "exceeds the free capacity")]
    fn taking_more_than_the_free_capacity_panics() {
        let mut capacity = Capacity::new(10);
        capacity.take(at(5), at(9), 4);
        capacity.take(at(0), at(6), 7);
    }

    proptest! {
        #[test]
        fn capacity_matches_an_array(changes in changes(400), from in 0..END, bps in 0..WHOLE + 2) {
            let (capacity, array) = (of(&changes), array(&changes));
            assert_sound(&capacity);
            let read: Vec<u64> = (0..END).map(|moment| capacity.at(at(moment))).collect();
            prop_assert_eq!(&read, &array);
            let cursor = capacity.cursor(at(from));
            let first = |wanted: &dyn Fn(u64) -> bool| {
                let rest = if wanted(WHOLE) { at(END) } else { Instant::NEVER };
                (from..END).find(|moment| wanted(array[*moment])).map_or(rest, at)
            };
            // after the last booking everything is free, which the function knows before the end of
            // the array
            prop_assert_eq!(cursor.next_at_least(bps), first(&|free| free >= bps));
            prop_assert_eq!(cursor.next_below(bps), first(&|free| free < bps));
            let till = from + (bps as usize) % (END - from);
            let least = array[from..till].iter().min().copied();
            prop_assert_eq!(capacity.least(at(from), at(till)), least.unwrap_or(WHOLE));
            for step in capacity.steps(at(from), at(END)) {
                for moment in step.from.as_nanos()..step.till.as_nanos() {
                    prop_assert_eq!(step.bps, array[moment as usize]);
                }
            }
        }

        #[test]
        fn releases_in_any_order_restore_the_capacity(mut some in changes(300), others in changes(300), seed: u64) {
            let mut capacity = of(&some);
            for &(from, len, bps) in &others {
                capacity.take(at(from), at(from + len), bps);
            }
            let mut rng = lighthaul_base::Rng::new(seed);
            while !some.is_empty() {
                let (from, len, bps) = some.swap_remove(rng.below(some.len() as u64) as usize);
                capacity.give(at(from), at(from + len), bps);
            }
            assert_sound(&capacity);
            prop_assert_eq!(capacity, of(&others));
        }

        #[test]
        fn deleting_past_steps_keeps_future_steps(changes in changes(400), before in 0..END) {
            let mut capacity = of(&changes);
            let was = capacity.clone();
            capacity.forget(at(before));
            assert_sound(&capacity);
            let after = |capacity: &Capacity| capacity.steps(at(before), at(END)).collect::<Vec<_>>();
            prop_assert_eq!(after(&capacity), after(&was));
            prop_assert_eq!(capacity.at(Instant::ZERO), was.at(at(before)));
        }
    }

    const END: usize = 1500;
    const WHOLE: u64 = 1200;
}
