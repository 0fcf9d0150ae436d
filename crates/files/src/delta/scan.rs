//! Search of a source for the blocks of its basis, in two passes.
//!
//! ```text
//! compare: is block n of the basis at its own offset?   while sums arrive, in order
//!   yes -> copy; short gap -> missing; long gap -> searched later
//! search:  is any block at this byte, or the next one?  in long gaps, with all sums
//!   yes -> copy; no -> missing
//! ```
//!
//! While nothing else can be sent, a long gap is searched at once, with the sums that have arrived.
//!
//! Most changed files keep their parts where they were, so that the first pass finds them while the basis is still
//! being read. The source is read once, and its long gaps twice.

use super::index::Index;
use super::stretch::STRETCH_MAX;
use super::summer::{Summer, weak};
use super::window::Window;
use crate::object::Span;

/// Longest gap that is not searched, in bytes.
const GAP: u64 = 16 << 10;
/// Maximum number of long gaps. Others are not searched.
const GAPS_MAX: usize = 1 << 15;
/// Bytes that are searched between two reads of the source.
const STRIDE: u64 = 256 << 10;
/// Bytes of a gap that are searched at a time while the sender has no other bytes to send.
const EAGER: u64 = STRETCH_MAX;
/// Constant part of the maximum number of bytes that are hashed without a match.
const HASHED_MAX: u64 = 64 << 20;
/// Bytes that may be hashed without a match for each searched byte of the source, in addition to [`HASHED_MAX`].
const HASHED_FOR_EACH: u64 = 8;

/// Source, and sums that arrive.
pub trait Environment {
    /// Error that ends the search.
    type Error;

    /// Reads bytes of the source.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Self::Error>;

    /// Adds sums that have arrived. Waits until `count` are known, or no more come.
    fn wait_for(&mut self, index: &mut Index, count: usize) -> Result<(), Self::Error>;

    /// Returns true if the sender has no other bytes to send.
    fn is_idle(&self) -> bool;

    /// Takes bytes at `at` of the source, which the basis has at `from`.
    fn matched(&mut self, at: u64, from: u64, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Takes a range of the source that the basis does not have.
    fn missing(&mut self, span: Span) -> Result<(), Self::Error>;
}

/// Search of one source.
#[derive(Debug)]
pub struct Scan<'a, E> {
    environment: &'a mut E,
    summer: &'a Summer,
    index: Index,
    /// Size of the source.
    size: u64,
    window: Window,
    /// Long gaps, which are searched with all sums.
    gaps: Vec<Span>,
    /// Number of bytes whose sums were compared.
    searched: u64,
    /// Number of bytes that were hashed without a match.
    hashed: u64,
}

impl<'a, E: Environment> Scan<'a, E> {
    /// Returns a search in a source of `size` bytes for a basis of `basis` bytes.
    pub fn new(environment: &'a mut E, summer: &'a Summer, (size, basis): (u64, u64)) -> Self {
        Self {
            environment,
            summer,
            index: Index::new(blocks(basis, summer.block())),
            size,
            window: Window::new(),
            gaps: Vec::new(),
            searched: 0,
            hashed: 0,
        }
    }

    /// Searches the ranges `spans` of the source, which are in order. The environment takes every byte of them once.
    pub fn run(mut self, spans: &[Span]) -> Result<(), E::Error> {
        for span in spans {
            self.compare(*span)?;
        }
        let gaps = std::mem::take(&mut self.gaps);
        if gaps.is_empty() {
            return Ok(());
        }
        let blocks = self.index.blocks();
        self.environment.wait_for(&mut self.index, blocks)?;
        self.index.build();
        for gap in gaps {
            if self.index.known() == 0 {
                self.environment.missing(gap)?;
            } else {
                self.search(gap)?;
            }
        }
        Ok(())
    }

    /// Compares each block of the basis with the bytes of the source at the same offset.
    fn compare(&mut self, (from, till): Span) -> Result<(), E::Error> {
        let (block, blocks) = (self.block(), self.index.blocks() as u64);
        let mut gap = from;
        let mut at = from.next_multiple_of(block);
        while at + block <= till && at / block < blocks {
            if self.has((at / block) as usize, at)? {
                self.pass((gap, at))?;
                self.take(at, at)?;
                gap = at + block;
            } else if at + block - gap >= EAGER && self.environment.is_idle() {
                self.index.build();
                self.search((gap, at + block))?;
                gap = at + block;
            }
            at += block;
        }
        self.pass((gap, till))
    }

    /// Handles a gap between blocks that match at their own offsets.
    fn pass(&mut self, gap: Span) -> Result<(), E::Error> {
        if gap.1 - gap.0 > GAP && self.gaps.len() < GAPS_MAX {
            self.gaps.push(gap);
            return Ok(());
        }
        self.miss(gap)
    }

    /// Compares all blocks at each byte of a range.
    fn search(&mut self, (from, till): Span) -> Result<(), E::Error> {
        let block = self.block();
        let (mut at, mut gap) = (from, from);
        let mut next = None;
        while at + block <= till {
            let found = match next {
                Some(number) if self.has(number, at)? => Some((at, number)),
                _ => self.find((at, (at + STRIDE).min(till - block)))?,
            };
            if let Some((found, number)) = found {
                self.miss((gap, found))?;
                self.take(found, number as u64 * block)?;
                (at, next) = (found + block, Some(number + 1));
            } else {
                at = (at + STRIDE).min(till - block) + 1;
                next = None;
                self.miss((gap, at))?;
            }
            gap = at;
        }
        self.miss((gap, till))
    }

    /// Returns the first block that matches at an offset in `from..=till`, with that offset.
    fn find(&mut self, (from, till): Span) -> Result<Option<(u64, usize)>, E::Error> {
        let (block, summer) = (self.summer.block(), self.summer);
        let hashed_max = HASHED_MAX + HASHED_FOR_EACH * self.searched;
        self.searched += till + 1 - from;
        let read = |at, buffer: &mut [u8]| self.environment.read(at, buffer);
        let bytes = self
            .window
            .get(from..till + block as u64, self.size, read)?;
        let mut sum = summer.rolling(&bytes[..block]);
        let pairs = bytes.iter().zip(&bytes[block..]).map(Some);
        for (at, pair) in pairs.chain([None]).enumerate() {
            if self.index.may_have(weak(sum)) && self.hashed <= hashed_max {
                let strong = || summer.strong(&bytes[at..at + block]);
                match self.index.find(weak(sum), strong) {
                    (Some(number), _) => return Ok(Some((from + at as u64, number))),
                    (None, has_hashed) => self.hashed += u64::from(has_hashed) * block as u64,
                }
            }
            if let Some((out, new)) = pair {
                sum = summer.roll(sum, *out, *new);
            }
        }
        Ok(None)
    }

    /// Returns true if block `number` is at `at`.
    fn has(&mut self, number: usize, at: u64) -> Result<bool, E::Error> {
        self.environment.wait_for(&mut self.index, number + 1)?;
        let Some(sum) = self.index.sum(number) else {
            return Ok(false);
        };
        Ok(self.summer.strong(self.get(at)?) == sum.strong)
    }

    /// Takes the block at `at`.
    fn take(&mut self, at: u64, from: u64) -> Result<(), E::Error> {
        let read = |at, buffer: &mut [u8]| self.environment.read(at, buffer);
        let range = at..at + self.summer.block() as u64;
        let bytes = self.window.get(range, self.size, read)?;
        self.environment.matched(at, from, bytes)
    }

    /// Returns the bytes of the block at `at`.
    fn get(&mut self, at: u64) -> Result<&[u8], E::Error> {
        let read = |at, buffer: &mut [u8]| self.environment.read(at, buffer);
        let range = at..at + self.summer.block() as u64;
        self.window.get(range, self.size, read)
    }

    fn miss(&mut self, span: Span) -> Result<(), E::Error> {
        if span.0 < span.1 {
            self.environment.missing(span)?;
        }
        Ok(())
    }

    const fn block(&self) -> u64 {
        self.summer.block() as u64
    }
}

/// Returns the number of whole blocks of a basis of `len` bytes. The rest is not used.
pub fn blocks(len: u64, block: usize) -> usize {
    usize::try_from(len / block as u64).unwrap_or(usize::MAX)
}
