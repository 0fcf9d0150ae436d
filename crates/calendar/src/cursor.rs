//! Sequential reader of a capacity function.

use lighthaul_base::Instant;

use crate::blocks::{Block, Blocks};

/// A time and the step that contains it. Moving to the next step needs no search.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    blocks: &'a Blocks,
    block: usize,
    point: usize,
    now: Instant,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(blocks: &'a Blocks, at: Instant) -> Self {
        let (block, point) = blocks.find(at);
        Self {
            blocks,
            block,
            point,
            now: at,
        }
    }

    /// Returns the current time.
    pub(crate) const fn now(&self) -> Instant {
        self.now
    }

    /// Returns the free rate at that time, in bits a second.
    pub(crate) fn free(&self) -> u64 {
        self.row().free(self.point)
    }

    /// Returns the end of the current step.
    pub(crate) fn till(&self) -> Instant {
        self.change().unwrap_or(Instant::NEVER)
    }

    /// Advances to a later time.
    pub(crate) fn seek(&mut self, at: Instant) {
        debug_assert!(self.now <= at);
        self.now = at;
        if self.change().is_none_or(|change| at < change) {
            return;
        }
        self.point += 1;
        if self.point == self.row().points.len() {
            self.block += 1;
            self.point = 0;
        }
        if self.change().is_some_and(|change| change <= at) {
            *self = Self::new(self.blocks, at);
        }
    }

    /// Returns the first time from here on with at least `bps` free.
    pub(crate) fn next_at_least(&self, bps: u64) -> Instant {
        self.next(|free| free >= bps, |block| block.most >= bps)
    }

    /// Returns the first time from here on with less than `bps` free.
    pub(crate) fn next_below(&self, bps: u64) -> Instant {
        self.next(|free| free < bps, |block| block.least < bps)
    }

    /// Returns the first time from here on with a `wanted` free rate. Blocks for which `may` is
    /// false are skipped.
    fn next(&self, wanted: impl Fn(u64) -> bool, may: impl Fn(&Block) -> bool) -> Instant {
        let mut begin = self.point;
        for block in &self.blocks.rows[self.block..] {
            if may(block) {
                let mut points = block.points[begin..].iter();
                if let Some(point) = points.find(|p| wanted(p.free.wrapping_add(block.offset))) {
                    return point.at.max(self.now);
                }
            }
            begin = 0;
        }
        Instant::NEVER
    }

    /// Returns the end of the current step, if it is not the last.
    fn change(&self) -> Option<Instant> {
        let next = self.row().points.get(self.point + 1);
        let next = next.or_else(|| {
            let block = self.blocks.rows.get(self.block + 1);
            block.map(|block| &block.points[0])
        });
        next.map(|point| point.at)
    }

    fn row(&self) -> &'a Block {
        &self.blocks.rows[self.block]
    }
}
