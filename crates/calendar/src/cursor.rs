//! A place in a capacity function, from which to look on.

use lighthaul_base::Instant;

use crate::blocks::{Block, Blocks};

/// A moment and the step that it is in; the next step is then a step away and no search.
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

    /// The moment that it is at.
    pub(crate) const fn now(&self) -> Instant {
        self.now
    }

    /// What is free there.
    pub(crate) fn free(&self) -> u64 {
        self.row().free(self.point)
    }

    /// Until when that is free.
    pub(crate) fn till(&self) -> Instant {
        self.change().unwrap_or(Instant::NEVER)
    }

    /// Goes on to a later moment.
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

    /// The first moment from here on when at least `bps` are free.
    pub(crate) fn next_at_least(&self, bps: u64) -> Instant {
        self.next(|free| free >= bps, |block| block.most >= bps)
    }

    /// The first moment from here on when less than `bps` are free.
    pub(crate) fn next_below(&self, bps: u64) -> Instant {
        self.next(|free| free < bps, |block| block.least < bps)
    }

    /// The first moment from here on when what is free is wanted, which `may` says of whole blocks.
    fn next(&self, wanted: impl Fn(u64) -> bool, may: impl Fn(&Block) -> bool) -> Instant {
        let mut begin = self.point;
        for block in &self.blocks.rows[self.block..] {
            if may(block) {
                let mut points = block.points[begin..].iter();
                if let Some(point) = points.find(|p| wanted(p.free.wrapping_add(block.owed))) {
                    return point.at.max(self.now);
                }
            }
            begin = 0;
        }
        Instant::NEVER
    }

    /// When the step that it is in ends, if it does.
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
