//! Points in time from which on so much is free, in blocks.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use lighthaul_base::Instant;

/// Blocks of points, in order; there is always one.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    /// The first moment of each block, close together, for the search.
    pub(crate) starts: Vec<Instant>,
    pub(crate) rows: Vec<Block>,
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

impl Blocks {
    /// One point, from which on so much is free.
    pub(crate) fn new(free: u64) -> Self {
        let at = Instant::ZERO;
        Self {
            starts: vec![at],
            rows: vec![Block::of(vec![Point { at, free }], 0)],
        }
    }

    /// How many points there are.
    pub(crate) fn points(&self) -> usize {
        self.rows.iter().map(|block| block.points.len()).sum()
    }

    /// Returns the least that is free at any moment from `from` till `till`, which is later.
    pub(crate) fn least(&self, from: Instant, till: Instant) -> u64 {
        let (first, begin) = self.find(from);
        let last = self.starts.partition_point(|start| *start < till) - 1;
        let blocks = self.rows[first..=last].iter().enumerate();
        let least = blocks.map(|(nth, block)| {
            let begin = if nth == 0 { begin } else { 0 };
            let end = block.points.partition_point(|point| point.at < till);
            block.least_of(begin..end)
        });
        least.min().unwrap_or(u64::MAX)
    }

    /// The block and the point in it whose step a moment is in.
    pub(crate) fn find(&self, at: Instant) -> (usize, usize) {
        let block = self.starts.partition_point(|start| *start <= at) - 1;
        let points = &self.rows[block].points;
        (block, points.partition_point(|point| point.at <= at) - 1)
    }

    /// Forgets what was before a moment.
    pub(crate) fn forget(&mut self, before: Instant) {
        let (block, point) = self.find(before);
        self.rows.drain(..block);
        self.starts.drain(..block);
        let first = &mut self.rows[0];
        first.points.drain(..point);
        first.points[0].at = Instant::ZERO;
        first.count();
        self.starts[0] = Instant::ZERO;
    }

    /// Adds `by`, which wraps, from one moment till another; what is free is never more than `whole` then.
    pub(crate) fn shift(&mut self, from: Instant, till: Instant, by: u64, whole: u64) {
        self.cut(till);
        self.cut(from);
        let (first, begin) = self.find(from);
        let (last, end) = self.find(till);
        for nth in first..=last {
            let block = &mut self.rows[nth];
            let begin = if nth == first { begin } else { 0 };
            let end = if nth == last { end } else { block.points.len() };
            block.shift(begin..end, by);
            let fits = block.least <= whole && block.most <= whole;
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
        let points = &mut self.rows[nth].points;
        let before = points[point];
        if before.at == at {
            return;
        }
        points.insert(point + 1, Point { at, ..before });
        if points.len() > POINTS_MAX {
            let back = points.split_off(POINTS_MAX / 2);
            let start = back[0].at;
            let back = Block::of(back, self.rows[nth].owed);
            self.rows[nth].count();
            self.rows.insert(nth + 1, back);
            self.starts.insert(nth + 1, start);
        }
    }

    /// Takes away the point at a moment if what is free does not change there.
    fn join(&mut self, at: Instant) {
        let (nth, point) = self.find(at);
        let free = self.rows[nth].free(point);
        let before = match (nth, point) {
            (0, 0) => return,
            (_, 0) => self.rows[nth - 1].free(self.rows[nth - 1].points.len() - 1),
            _ => self.rows[nth].free(point - 1),
        };
        if before != free {
            return;
        }
        self.rows[nth].points.remove(point);
        match self.rows[nth].points.first() {
            None => {
                self.rows.remove(nth);
                self.starts.remove(nth);
            }
            Some(first) => {
                if point == 0 {
                    self.starts[nth] = first.at;
                    self.rows[nth].count();
                }
                self.merge(nth);
            }
        }
    }

    /// Lets a block that has become small be part of the next one.
    fn merge(&mut self, nth: usize) {
        let small = self.rows[nth].points.len() < POINTS_MAX / 8;
        let next = self
            .rows
            .get(nth + 1)
            .map_or(POINTS_MAX, |block| block.points.len());
        if !small || next > POINTS_MAX / 2 {
            return;
        }
        let back = self.rows.remove(nth + 1);
        self.starts.remove(nth + 1);
        let block = &mut self.rows[nth];
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
pub(crate) const POINTS_MAX: usize = 256;
