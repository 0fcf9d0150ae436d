//! What is left of a link over time: steps, exact, in an order that a million of them do not slow down.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use lighthaul_base::Instant;

use crate::cursor::Cursor;

/// A capacity function, the paper's gamma(t) (section 3): from each point till the next so many bits a second are
/// free, and behind the last one everything is.
///
/// Neighbours that are equal are one step, so the steps are as few as they can be. They lie in blocks that know the
/// least and the most that is free in them: a query jumps over blocks in which nothing can be found, and a change
/// that covers a whole block is noted there once (`owed`). A list as in the paper costs a walk over everything
/// booked for every request; a tree of single points spends more on its nodes than these rows do on moving their ends.
#[derive(Clone, Debug)]
pub struct Capacity {
    whole: u64,
    /// The first moment of each block, close together, for the search.
    starts: Vec<Instant>,
    pub(crate) blocks: Vec<Block>,
}

/// A row of points, never empty.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) points: Vec<Point>,
    /// To be added to every point; wraps, since most of it takes away.
    pub(crate) owed: u64,
    pub(crate) least: u64,
    pub(crate) most: u64,
}

/// From when on so much is free; without what its block owes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) at: Instant,
    pub(crate) free: u64,
}

/// A time in which the same is free, perhaps nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Free {
    /// Its first moment.
    pub from: Instant,
    /// The first moment after it; [`Instant::NEVER`] behind the last booking.
    pub till: Instant,
    /// Bits a second.
    pub bps: u64,
}

impl Capacity {
    /// A link of `bps` bits a second that nobody has booked.
    pub fn new(bps: u64) -> Self {
        let point = Point {
            at: Instant::ZERO,
            free: bps,
        };
        Self {
            whole: bps,
            starts: vec![Instant::ZERO],
            blocks: vec![Block::of(vec![point], 0)],
        }
    }

    /// What it has when nothing is booked.
    pub const fn whole(&self) -> u64 {
        self.whole
    }

    /// What is free at a moment.
    pub fn at(&self, at: Instant) -> u64 {
        self.cursor(at).free()
    }

    /// The steps from one moment till another, in order.
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

    /// Returns the least that is free at any moment from `from` till `till`; all of it where that is no time.
    pub fn least(&self, from: Instant, till: Instant) -> u64 {
        if from >= till {
            return self.whole;
        }
        let (first, begin) = self.find(from);
        let last = self.starts.partition_point(|start| *start < till) - 1;
        let blocks = self.blocks[first..=last].iter().enumerate();
        let least = blocks.map(|(nth, block)| {
            let begin = if nth == 0 { begin } else { 0 };
            let end = block.points.partition_point(|point| point.at < till);
            block.least_of(begin..end)
        });
        least.min().unwrap_or(self.whole)
    }

    /// How many steps there are.
    pub fn len(&self) -> usize {
        self.blocks.iter().map(|block| block.points.len()).sum()
    }

    /// Whether nothing is booked.
    pub fn is_empty(&self) -> bool {
        self.blocks.len() == 1
            && self.blocks[0].points.len() == 1
            && self.blocks[0].least == self.whole
    }

    /// Takes `bps` bits a second away from one moment till another; they must be there.
    pub fn take(&mut self, from: Instant, till: Instant, bps: u64) {
        self.shift(from, till, bps.wrapping_neg());
    }

    /// Gives back what was taken.
    pub fn give(&mut self, from: Instant, till: Instant, bps: u64) {
        self.shift(from, till, bps);
    }

    /// Forgets what was before a moment, of which nobody will ask again.
    pub fn forget(&mut self, before: Instant) {
        let (block, point) = self.find(before);
        self.blocks.drain(..block);
        self.starts.drain(..block);
        let first = &mut self.blocks[0];
        first.points.drain(..point);
        first.points[0].at = Instant::ZERO;
        first.count();
        self.starts[0] = Instant::ZERO;
    }

    /// A place in it from which to look on.
    pub(crate) fn cursor(&self, at: Instant) -> Cursor<'_> {
        Cursor::new(self, at)
    }

    /// The block and the point in it whose step a moment is in.
    pub(crate) fn find(&self, at: Instant) -> (usize, usize) {
        let block = self.starts.partition_point(|start| *start <= at) - 1;
        let points = &self.blocks[block].points;
        (block, points.partition_point(|point| point.at <= at) - 1)
    }

    /// Adds `by`, which wraps, from one moment till another.
    fn shift(&mut self, from: Instant, till: Instant, by: u64) {
        if from >= till || by == 0 {
            return;
        }
        self.cut(till);
        self.cut(from);
        let (first, begin) = self.find(from);
        let (last, end) = self.find(till);
        for nth in first..=last {
            let block = &mut self.blocks[nth];
            let begin = if nth == first { begin } else { 0 };
            let end = if nth == last { end } else { block.points.len() };
            block.shift(begin..end, by);
            let fits = block.least <= self.whole && block.most <= self.whole;
            assert!(
                fits,
                "more was taken than was free, or more given than was taken"
            );
        }
        self.join(till);
        self.join(from);
    }

    /// Has a point at a moment, without a change of what is free.
    fn cut(&mut self, at: Instant) {
        let (nth, point) = self.find(at);
        let points = &mut self.blocks[nth].points;
        let before = points[point];
        if before.at == at {
            return;
        }
        points.insert(point + 1, Point { at, ..before });
        if points.len() > POINTS_MAX {
            let back = points.split_off(POINTS_MAX / 2);
            let start = back[0].at;
            let back = Block::of(back, self.blocks[nth].owed);
            self.blocks[nth].count();
            self.blocks.insert(nth + 1, back);
            self.starts.insert(nth + 1, start);
        }
    }

    /// Takes away the point at a moment if what is free does not change there.
    fn join(&mut self, at: Instant) {
        let (nth, point) = self.find(at);
        let free = self.blocks[nth].free(point);
        let before = match (nth, point) {
            (0, 0) => return,
            (_, 0) => self.blocks[nth - 1].free(self.blocks[nth - 1].points.len() - 1),
            _ => self.blocks[nth].free(point - 1),
        };
        if before != free {
            return;
        }
        self.blocks[nth].points.remove(point);
        match self.blocks[nth].points.first() {
            None => {
                self.blocks.remove(nth);
                self.starts.remove(nth);
            }
            Some(first) => {
                if point == 0 {
                    self.starts[nth] = first.at;
                    self.blocks[nth].count();
                }
                self.merge(nth);
            }
        }
    }

    /// Lets a block that has become small be part of the next one.
    fn merge(&mut self, nth: usize) {
        let small = self.blocks[nth].points.len() < POINTS_MAX / 8;
        let next = self
            .blocks
            .get(nth + 1)
            .map_or(POINTS_MAX, |block| block.points.len());
        if !small || next > POINTS_MAX / 2 {
            return;
        }
        let back = self.blocks.remove(nth + 1);
        self.starts.remove(nth + 1);
        let block = &mut self.blocks[nth];
        let owed = back.owed.wrapping_sub(block.owed);
        block
            .points
            .extend(back.points.into_iter().map(|point| Point {
                free: point.free.wrapping_add(owed),
                ..point
            }));
        block.count();
    }
}

/// Two are equal if they say the same of every moment, however their steps lie in blocks.
impl PartialEq for Capacity {
    fn eq(&self, other: &Self) -> bool {
        self.whole == other.whole
            && self
                .steps(Instant::ZERO, Instant::NEVER)
                .eq(other.steps(Instant::ZERO, Instant::NEVER))
    }
}

impl Eq for Capacity {}

impl Block {
    fn of(points: Vec<Point>, owed: u64) -> Self {
        let mut block = Self {
            points,
            owed,
            least: 0,
            most: 0,
        };
        block.count();
        block
    }

    /// What is free from a point on.
    pub(crate) fn free(&self, point: usize) -> u64 {
        self.points[point].free.wrapping_add(self.owed)
    }

    /// Returns the least that is free from some of its points on.
    fn least_of(&self, range: Range<usize>) -> u64 {
        if range.len() == self.points.len() {
            return self.least;
        }
        let frees = self.points[range].iter().map(|point| point.free);
        let frees = frees.map(|free| free.wrapping_add(self.owed));
        frees.min().unwrap_or(u64::MAX)
    }

    fn shift(&mut self, range: Range<usize>, by: u64) {
        if range.is_empty() {
            return;
        }
        if range.len() == self.points.len() {
            self.owed = self.owed.wrapping_add(by);
            self.least = self.least.wrapping_add(by);
            self.most = self.most.wrapping_add(by);
            return;
        }
        for point in &mut self.points[range] {
            point.free = point.free.wrapping_add(by);
        }
        self.count();
    }

    /// Finds its least and most again.
    fn count(&mut self) {
        let frees = self
            .points
            .iter()
            .map(|point| point.free.wrapping_add(self.owed));
        (self.least, self.most) = frees.fold((u64::MAX, 0), |(least, most), free| {
            (least.min(free), most.max(free))
        });
    }
}

/// Points in a block: as many as are moved about as fast as a block is found.
const POINTS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(nanos: usize) -> Instant {
        Instant::from_nanos(nanos as u64)
    }

    /// What is free at each nanosecond, the dumbest way to know it.
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

    /// The blocks agree with the points in them.
    fn assert_sound(capacity: &Capacity) {
        let mut before: Option<(Instant, u64)> = None;
        assert_eq!(capacity.starts.len(), capacity.blocks.len());
        for (start, block) in capacity.starts.iter().zip(&capacity.blocks) {
            assert_eq!(*start, block.points[0].at);
            assert!(block.points.len() <= POINTS_MAX);
            let frees: Vec<u64> = (0..block.points.len()).map(|nth| block.free(nth)).collect();
            assert_eq!(frees.iter().min(), Some(&block.least));
            assert_eq!(frees.iter().max(), Some(&block.most));
            for (point, free) in block.points.iter().zip(frees) {
                if let Some((earlier, other)) = before {
                    assert!(earlier < point.at, "points are in order");
                    assert_ne!(other, free, "neighbours that are equal are one step");
                }
                before = Some((point.at, free));
            }
        }
    }

    #[test]
    fn equal_bookings_at_one_moment_count_twice_and_neighbours_do_not_add_up() {
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
    #[should_panic(expected = "more was taken")]
    fn more_than_there_is_cannot_be_taken() {
        let mut capacity = Capacity::new(10);
        capacity.take(at(5), at(9), 4);
        capacity.take(at(0), at(6), 7);
    }

    proptest! {
        #[test]
        fn it_does_what_an_array_does(changes in changes(400), from in 0..END, bps in 0..WHOLE + 2) {
            let (capacity, array) = (of(&changes), array(&changes));
            assert_sound(&capacity);
            let read: Vec<u64> = (0..END).map(|moment| capacity.at(at(moment))).collect();
            prop_assert_eq!(&read, &array);
            let cursor = capacity.cursor(at(from));
            let first = |wanted: &dyn Fn(u64) -> bool| {
                let rest = if wanted(WHOLE) { at(END) } else { Instant::NEVER };
                (from..END).find(|moment| wanted(array[*moment])).map_or(rest, at)
            };
            // behind the last booking all is free from where it ends, which is before the array does
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
        fn giving_back_in_any_order_restores_it(mut some in changes(300), others in changes(300), seed: u64) {
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
        fn what_is_forgotten_leaves_the_rest(changes in changes(400), before in 0..END) {
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
