//! Blocks of a basis, indexed by their sums.
//!
//! [`Index`] receives the [`Sum`] of each block in order, and finds a block by the sum of a window
//! of the source. Lookups take three steps: the filter, the weak sum in a hash table, the strong
//! sum. The number of blocks is known before the first sum arrives, and bounds the memory to
//! [`Index::BYTES_A_BLOCK`] each. A lookup tries at most 32 slots, so that a peer which sends many
//! equal weak sums costs bounded time. Equal sums do not prove equal bytes: the receiver compares
//! digests of the copies.

use lighthaul_base::Malformed;

use super::summer::Sum;

/// Slots that are tried for one sum. Of more blocks with the same weak sum, the others are not
/// found.
const TRIES: usize = 32;
const EMPTY: u32 = u32::MAX;

/// Sums of the blocks of a basis, and a hash table of them.
#[derive(Debug)]
pub struct Index {
    sums: Vec<Sum>,
    blocks: usize,
    /// True if no more sums come.
    complete: bool,
    /// Sums that are in the table.
    added: usize,
    /// Numbers of blocks, by weak sum.
    slots: Vec<u32>,
    /// Bits of weak sums in the table. It fits into the cache of a CPU when the table does not.
    filter: Vec<u64>,
}

impl Index {
    /// Maximum number of bytes of memory for each block: 8 for its sum, 4 for the growth of the list of sums,
    /// 10 for 2.5 slots, and 4 for the filter.
    pub const BYTES_A_BLOCK: usize = 8 + 4 + 10 + 4;

    /// Returns an index for a basis of `blocks` blocks.
    pub const fn new(blocks: usize) -> Self {
        Self {
            sums: Vec::new(),
            blocks,
            complete: false,
            added: 0,
            slots: Vec::new(),
            filter: Vec::new(),
        }
    }

    /// Returns the number of known sums.
    pub const fn known(&self) -> usize {
        self.sums.len()
    }

    /// Returns the number of blocks of the basis.
    pub const fn blocks(&self) -> usize {
        self.blocks
    }

    /// Returns true if no more sums come.
    pub const fn is_complete(&self) -> bool {
        self.complete
    }

    /// Records that no more sums come, even if some are missing.
    pub const fn finish(&mut self) {
        self.complete = true;
    }

    /// Adds the sums of the next blocks. Fails if the basis has fewer.
    pub fn extend(&mut self, sums: &[Sum]) -> Result<(), Malformed> {
        if sums.len() > self.blocks - self.sums.len() {
            return Err(Malformed);
        }
        if self.sums.capacity() - self.sums.len() < sums.len() {
            let room = sums.len().max(self.sums.len() / 2);
            let left = self.blocks - self.sums.len();
            self.sums.reserve_exact(room.min(left));
        }
        self.sums.extend_from_slice(sums);
        self.complete |= self.sums.len() == self.blocks;
        Ok(())
    }

    /// Returns the sum of block `number`, if it is known.
    pub fn sum(&self, number: usize) -> Option<Sum> {
        self.sums.get(number).copied()
    }

    /// Puts all known sums into the table.
    pub fn build(&mut self) {
        if self.slots.is_empty() {
            self.slots = vec![EMPTY; (self.blocks + self.blocks / 4).next_power_of_two()];
            self.filter = vec![0; (self.blocks / 4).next_power_of_two()];
        }
        for number in self.added..self.sums.len() {
            self.insert(number);
        }
        self.added = self.sums.len();
    }

    fn insert(&mut self, number: usize) {
        let sum = self.sums[number];
        let mask = self.slots.len() - 1;
        for tried in 0..TRIES {
            let slot = &mut self.slots[(sum.weak as usize + tried) & mask];
            if *slot == EMPTY {
                *slot = number as u32;
                let (word, bits) = place(sum.weak, self.filter.len());
                self.filter[word] |= bits;
                return;
            }
            // of equal blocks, the first is enough
            if self.sums.get(*slot as usize) == Some(&sum) {
                return;
            }
        }
    }

    /// Returns false if no block has the weak sum `weak`.
    #[inline]
    pub fn may_have(&self, weak: u32) -> bool {
        let (word, bits) = place(weak, self.filter.len());
        self.filter
            .get(word)
            .is_some_and(|there| there & bits == bits)
    }

    /// Returns a block with the given sums. Computes the strong sum only if a block has the weak one. The second value
    /// is true if the strong sum was computed.
    pub fn find(&self, weak: u32, strong: impl FnOnce() -> u32) -> (Option<usize>, bool) {
        let mask = self.slots.len().saturating_sub(1);
        let slots = (0..TRIES).map(|tried| self.slots.get((weak as usize + tried) & mask).copied());
        let there = slots.map_while(|slot| slot.filter(|number| *number != EMPTY));
        let numbers = there.map(|number| number as usize);
        let mut alike = numbers
            .filter(|number| self.sums.get(*number).is_some_and(|sum| sum.weak == weak))
            .peekable();
        if alike.peek().is_none() {
            return (None, false);
        }
        let strong = strong();
        (
            alike.find(|number| self.sums[*number].strong == strong),
            true,
        )
    }
}

/// Returns the word for a weak sum in a filter of `words` words, and the two bits of the sum. The high bits of the sum
/// are used first, since the table uses the low ones.
#[inline]
const fn place(weak: u32, words: usize) -> (usize, u64) {
    let mixed = weak.rotate_left(16);
    let bits = 1 << (mixed & 63) | 1 << (mixed >> 26);
    ((mixed as usize >> 6) & words.wrapping_sub(1), bits)
}
