//! Change points of a capacity function, grouped into blocks.
//!
//! Each block keeps its lowest and its highest value, so a search skips whole blocks. A change of
//! many points adds to the offset of a block, and touches only the points at its ends. Two
//! neighboring points never have the same value.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use lighthaul_base::Instant;

/// Blocks of change points in order of time; never empty.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    /// Time of the first point of each block, in one array for binary search.
    pub(crate) starts: Vec<Instant>,
    pub(crate) rows: Vec<Block>,
}

/// Consecutive points, never empty.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) points: Vec<Point>,
    /// Value to add to each point, modulo 2^64, because most changes subtract.
    pub(crate) offset: u64,
    pub(crate) least: u64,
    pub(crate) most: u64,
}

/// Time from which a rate is free. The offset of the block is not included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) at: Instant,
    pub(crate) free: u64,
}

impl Blocks {
    /// Returns one point: `free` bits a second are free at all times.
    pub(crate) fn new(free: u64) -> Self {
        let at = Instant::ZERO;
        Self {
            starts: vec![at],
            rows: vec![Block::of(vec![Point { at, free }], 0)],
        }
    }

    /// Returns the number of points.
    pub(crate) fn points(&self) -> usize {
        self.rows.iter().map(|block| block.points.len()).sum()
    }

    /// Returns the lowest free rate in `from..till`, which must not be empty.
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

    /// Returns the indexes of the block, and of the point in it, whose step contains a time.
    pub(crate) fn find(&self, at: Instant) -> (usize, usize) {
        let block = self.starts.partition_point(|start| *start <= at) - 1;
        let points = &self.rows[block].points;
        (block, points.partition_point(|point| point.at <= at) - 1)
    }

    /// Deletes the history before a time.
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

    /// Adds `by` modulo 2^64 in `from..till`. Panics if the free rate then exceeds `whole` or is
    /// negative.
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
                "the taken capacity exceeds the free capacity, or more capacity is freed than was taken"
            );
        }
        self.join(till);
        self.join(from);
    }

    /// Inserts a point at a time without a change of the free rate.
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
            let back = Block::of(back, self.rows[nth].offset);
            self.rows[nth].count();
            self.rows.insert(nth + 1, back);
            self.starts.insert(nth + 1, start);
        }
    }

    /// Removes the point at a time if the free rate does not change there.
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

    /// Merges a small block with the next one if both fit into one.
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
        let offset = back.offset.wrapping_sub(block.offset);
        block
            .points
            .extend(back.points.into_iter().map(|point| Point {
                free: point.free.wrapping_add(offset),
                ..point
            }));
        block.count();
    }
}

impl Block {
    fn of(points: Vec<Point>, offset: u64) -> Self {
        let mut block = Self {
            points,
            offset,
            least: 0,
            most: 0,
        };
        block.count();
        block
    }

    /// Returns the free rate from a point on.
    pub(crate) fn free(&self, point: usize) -> u64 {
        self.points[point].free.wrapping_add(self.offset)
    }

    /// Returns the lowest free rate from a range of points on.
    fn least_of(&self, range: Range<usize>) -> u64 {
        if range.len() == self.points.len() {
            return self.least;
        }
        let frees = self.points[range].iter().map(|point| point.free);
        let frees = frees.map(|free| free.wrapping_add(self.offset));
        frees.min().unwrap_or(u64::MAX)
    }

    fn shift(&mut self, range: Range<usize>, by: u64) {
        if range.is_empty() {
            return;
        }
        if range.len() == self.points.len() {
            self.offset = self.offset.wrapping_add(by);
            self.least = self.least.wrapping_add(by);
            self.most = self.most.wrapping_add(by);
            return;
        }
        for point in &mut self.points[range] {
            point.free = point.free.wrapping_add(by);
        }
        self.count();
    }

    /// Computes the lowest and the highest value again.
    fn count(&mut self) {
        let frees = self
            .points
            .iter()
            .map(|point| point.free.wrapping_add(self.offset));
        (self.least, self.most) = frees.fold((u64::MAX, 0), |(least, most), free| {
            (least.min(free), most.max(free))
        });
    }
}

/// Maximum number of points in a block: moving them takes about as long as finding a block.
pub(crate) const POINTS_MAX: usize = 256;
