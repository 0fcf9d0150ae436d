//! Search of a source for blocks of its basis. The source is read once, in order, except for parts
//! that no known block had while sums were still arriving: those are searched again at the end.
//!
//! ```text
//! is it the block that follows the last one?         -> matched
//! is the block after that one the next of the basis? -> one block was replaced
//! no: compare at each byte, against all known sums   -> matched, or missing
//! ```

use super::index::Index;
use super::parts::{Part, Parts};
use super::summer::{Summer, weak};
use super::window::Window;
use crate::digest::DigestKind;
use crate::object::Span;

/// Sums that must be known past the position before a search at each byte, in bytes of the basis.
/// Parts that moved backward by less are found at once.
const AHEAD: u64 = 64 << 20;
/// Bytes that are searched at each position before the rest waits until all sums are known.
const SEARCHED: u64 = 4 << 20;
/// Bytes of the source between two looks at what has arrived.
const STRIDE: u64 = 256 << 10;
/// Bytes after which a search that found little is given up, and the reciprocal of the least share.
const TRIED: u64 = 64 << 20;
const SHARE: u64 = 20;

/// Source, and sums that arrive.
pub trait Environment {
    /// Error that ends the search.
    type Error;

    /// Reads bytes of the source.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Self::Error>;

    /// Adds sums that have arrived. Waits until `count` are known, or no more come.
    fn wait_for(&mut self, index: &mut Index, count: usize) -> Result<(), Self::Error>;

    /// Takes the next parts, in order but for parts that were searched again. There may be none.
    fn found(&mut self, parts: Vec<Part>) -> Result<(), Self::Error>;
}

/// Search of one source.
#[derive(Debug)]
pub struct Scan<'a, E> {
    environment: &'a mut E,
    summer: &'a Summer,
    index: Index,
    /// Size of the source.
    size: u64,
    /// Bytes of the last block of the basis, if it is shorter than the others.
    short: u64,
    /// Gives up if little is found.
    may_give_up: bool,
    given_up: bool,
    window: Window,
    parts: Parts,
    /// Parts that are searched again when all sums are known.
    later: Vec<Span>,
    /// Bytes that were searched, and those of them that the basis has.
    passed: u64,
    matched: u64,
    /// Bytes at which all sums were compared, and blocks that were hashed there in vain.
    rolled: u64,
    hashed: u64,
    /// Bytes since parts were last reported.
    unreported: u64,
}

/// Position of a search.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    at: u64,
    /// End of what is in a part.
    gap: u64,
    /// Block of the basis that would follow.
    next: Option<usize>,
    /// Offset in the basis that corresponds to `gap`, if only bytes were replaced.
    follows: u64,
}

impl<'a, E: Environment> Scan<'a, E> {
    /// Returns a search in a source of `size` bytes for a basis of `basis` bytes.
    pub fn new(
        environment: &'a mut E,
        summer: &'a Summer,
        (size, basis): (u64, u64),
        (kind, may_give_up): (DigestKind, bool),
    ) -> Self {
        Self {
            environment,
            summer,
            index: Index::new(blocks(basis, summer.block())),
            size,
            short: basis % summer.block() as u64,
            may_give_up,
            given_up: false,
            window: Window::new(),
            parts: Parts::new(kind),
            later: Vec::new(),
            passed: 0,
            matched: 0,
            rolled: 0,
            hashed: 0,
            unreported: 0,
        }
    }

    /// Searches the ranges `spans` of the source, which are in order. Every byte of them is in one
    /// part that the environment takes.
    pub fn run(mut self, spans: &[Span]) -> Result<(), E::Error> {
        for span in spans {
            self.search(*span)?;
        }
        let later = std::mem::take(&mut self.later);
        if !later.is_empty() {
            self.wait_for_all()?;
        }
        for span in later {
            self.search(span)?;
        }
        let parts = self.parts.finish();
        self.environment.found(parts)
    }

    fn search(&mut self, (from, till): Span) -> Result<(), E::Error> {
        let block = self.block();
        let mut cursor = Cursor {
            at: from,
            gap: from,
            next: None,
            follows: from,
        };
        while !self.given_up && till - cursor.at >= block {
            if self.follow(&mut cursor, till)? {
                continue;
            }
            match self.roll(&mut cursor, till)? {
                Rolled::Found(number) => self.take(&mut cursor, number)?,
                Rolled::Later => self.step(&mut cursor, till)?,
                Rolled::End => break,
            }
        }
        self.end(&cursor, till)
    }

    /// Compares the block at the position with the one that would follow, or that has the same
    /// offset. Returns false if the position needs a search.
    fn follow(&mut self, cursor: &mut Cursor, till: u64) -> Result<bool, E::Error> {
        let (block, at) = (self.block(), cursor.at);
        let aligned = at.is_multiple_of(block).then_some((at / block) as usize);
        let Some(number) = cursor.next.or(aligned) else {
            return Ok(false);
        };
        if self.has(number, at)? {
            self.take(cursor, number)?;
            return Ok(true);
        }
        let is_replaced = till - at >= 2 * block && self.has(number + 1, at + block)?;
        if is_replaced {
            cursor.at += block;
            cursor.next = Some(number + 1);
        }
        Ok(is_replaced)
    }

    /// Compares all known sums at each byte from the position on.
    fn roll(&mut self, cursor: &mut Cursor, till: u64) -> Result<Rolled, E::Error> {
        let (block, last) = (self.block(), till - self.block());
        let ahead = ((cursor.at + AHEAD) / block) as usize + 1;
        self.environment.wait_for(&mut self.index, ahead)?;
        loop {
            if self.is_hopeless(cursor)? {
                return Ok(Rolled::End);
            }
            self.index
                .build((self.short > 0).then(|| self.index.blocks() - 1));
            let stride = (cursor.at, (cursor.at + STRIDE).min(last));
            if let Some((at, number)) = self.roll_stride(stride)? {
                cursor.at = at;
                return Ok(Rolled::Found(self.nearest(at, number)));
            }
            cursor.at = stride.1;
            if stride.1 == last {
                return Ok(Rolled::End);
            }
            let known = self.index.known();
            self.environment.wait_for(&mut self.index, known)?;
            if self.index.is_complete() {
                // nothing that is found later begins before the position
                self.pass(cursor, cursor.at)?;
            } else if cursor.at - cursor.gap > SEARCHED {
                return Ok(Rolled::Later);
            }
        }
    }

    /// Compares all known sums at each byte of `from..=till`. Returns the first block that is
    /// there.
    fn roll_stride(&mut self, (from, till): Span) -> Result<Option<(u64, usize)>, E::Error> {
        let (block, summer) = (self.summer.block(), self.summer);
        let read = |at, buffer: &mut [u8]| self.environment.read(at, buffer);
        let range = from..till + block as u64;
        let bytes = self.window.get(range, self.size, read)?;
        let mut sum = summer.rolling(&bytes[..block]);
        let pairs = bytes.iter().zip(&bytes[block..]).map(Some);
        for (at, pair) in pairs.chain([None]).enumerate() {
            if self.index.may_have(weak(sum)) {
                self.rolled += 1;
                let may_hash = self.hashed * block as u64 <= 8 * self.passed + (TRIED << 1);
                if may_hash {
                    let strong = || summer.strong(&bytes[at..at + block]);
                    match self.index.find(weak(sum), strong) {
                        (Some(number), _) => return Ok(Some((from + at as u64, number))),
                        (None, has_hashed) => self.hashed += u64::from(has_hashed),
                    }
                }
            }
            if let Some((out, new)) = pair {
                sum = summer.roll(sum, *out, *new);
            }
        }
        Ok(None)
    }

    /// Returns the block at the same offset, if it equals block `number`.
    fn nearest(&self, at: u64, number: usize) -> usize {
        let same = (at / self.block()) as usize;
        let is_equal = at.is_multiple_of(self.block())
            && self.index.sum(same) == self.index.sum(number)
            && !self.is_short(same);
        if is_equal { same } else { number }
    }

    /// Compares only blocks at the same offset, since not all sums are known. What is passed is
    /// searched again.
    fn step(&mut self, cursor: &mut Cursor, till: u64) -> Result<(), E::Error> {
        let block = self.block();
        let mut at = cursor.at.next_multiple_of(block);
        loop {
            cursor.at = at.min(till);
            if self.is_hopeless(cursor)? {
                return Ok(());
            }
            if self.index.is_complete() {
                (cursor.at, cursor.next) = (cursor.gap, None);
                return Ok(());
            }
            let is_over = till.saturating_sub(at) < block;
            if is_over {
                cursor.at = till;
            }
            let number = (at / block) as usize;
            if is_over || self.has(number, at)? {
                self.later.push((cursor.gap, cursor.at));
                self.passed += cursor.at - cursor.gap;
                (cursor.gap, cursor.next, cursor.follows) = (cursor.at, Some(number), cursor.at);
                return Ok(());
            }
            at += block;
        }
    }

    /// Reports what is left of a range after the last whole block.
    fn end(&mut self, cursor: &Cursor, till: u64) -> Result<(), E::Error> {
        let (gap, short, block) = (cursor.gap, self.short, self.block());
        if till == self.size && short > 0 && till - gap >= short && !self.given_up {
            let last = self.index.blocks() - 1;
            self.environment.wait_for(&mut self.index, last + 1)?;
            let from = till - short;
            let read = |at, buffer: &mut [u8]| self.environment.read(at, buffer);
            let bytes = self.window.get(from..till, self.size, read)?;
            let sum = self.index.sum(last);
            if sum.is_some_and(|sum| sum.strong == self.summer.strong(bytes)) {
                self.parts.missing((gap, from));
                self.parts.matched(from, last as u64 * block, bytes);
                return self.report(till - gap);
            }
        }
        self.parts.missing((gap, till));
        self.report(till - gap)
    }

    /// Adds the block at the position, which is block `number` of the basis.
    fn take(&mut self, cursor: &mut Cursor, number: usize) -> Result<(), E::Error> {
        let (block, at) = (self.block(), cursor.at);
        let read = |at, buffer: &mut [u8]| self.environment.read(at, buffer);
        let bytes = self.window.get(at..at + block, self.size, read)?;
        let (gap, from) = ((cursor.gap, at), number as u64 * block);
        // what was only replaced is hardly elsewhere, and is sent at once
        let is_replaced = cursor.follows + (at - cursor.gap) == from;
        if is_replaced || at - cursor.gap <= STRIDE || self.index.is_complete() {
            self.parts.missing(gap);
        } else {
            self.later.push(gap);
        }
        self.parts.matched(at, from, bytes);
        let passed = at + block - cursor.gap;
        self.passed += passed;
        self.matched += block;
        *cursor = Cursor {
            at: at + block,
            gap: at + block,
            next: Some(number + 1),
            follows: from + block,
        };
        self.report(passed)
    }

    /// Adds what is missing before `at`.
    fn pass(&mut self, cursor: &mut Cursor, at: u64) -> Result<(), E::Error> {
        let passed = at - cursor.gap;
        self.parts.missing((cursor.gap, at));
        self.passed += passed;
        cursor.gap = at;
        cursor.follows += passed;
        self.report(passed)
    }

    /// Reports parts now and then.
    fn report(&mut self, passed: u64) -> Result<(), E::Error> {
        self.unreported += passed;
        if self.unreported >= STRIDE {
            self.unreported = 0;
            let parts = self.parts.take();
            self.environment.found(parts)?;
        }
        Ok(())
    }

    /// Returns true if the search is given up, since little was found with all sums. If some are
    /// not known yet, waits for them, and goes back.
    fn is_hopeless(&mut self, cursor: &mut Cursor) -> Result<bool, E::Error> {
        let passed = self.passed + (cursor.at - cursor.gap);
        if !self.may_give_up || passed < TRIED || self.matched >= passed / SHARE {
            return Ok(false);
        }
        if self.index.is_complete() {
            self.given_up = true;
            return Ok(true);
        }
        self.wait_for_all()?;
        (self.passed, self.matched) = (0, 0);
        (cursor.at, cursor.next) = (cursor.gap, None);
        Ok(false)
    }

    /// Returns true if block `number` of the basis is a whole block, and equals that at `at`.
    fn has(&mut self, number: usize, at: u64) -> Result<bool, E::Error> {
        self.environment.wait_for(&mut self.index, number + 1)?;
        let Some(sum) = self.index.sum(number).filter(|_| !self.is_short(number)) else {
            return Ok(false);
        };
        let read = |at, buffer: &mut [u8]| self.environment.read(at, buffer);
        let bytes = self
            .window
            .get(at..at + self.summer.block() as u64, self.size, read)?;
        Ok(self.summer.strong(bytes) == sum.strong)
    }

    const fn is_short(&self, number: usize) -> bool {
        self.short > 0 && number + 1 == self.index.blocks()
    }

    fn wait_for_all(&mut self) -> Result<(), E::Error> {
        let blocks = self.index.blocks();
        self.environment.wait_for(&mut self.index, blocks)
    }

    const fn block(&self) -> u64 {
        self.summer.block() as u64
    }
}

/// Result of a search at each byte.
enum Rolled {
    /// This block of the basis is at the position.
    Found(usize),
    /// Nothing was found, and not all sums are known.
    Later,
    /// Nothing was found up to the end.
    End,
}

/// Returns the number of blocks of a basis of `len` bytes.
pub fn blocks(len: u64, block: usize) -> usize {
    usize::try_from(len.div_ceil(block as u64)).unwrap_or(usize::MAX)
}
