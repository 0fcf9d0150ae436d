//! Bytes of the source around the position of a search, read once and in order.

use std::ops::Range;

/// Bytes that are read at a time.
const READ: usize = 1 << 20;

/// Part of the source in memory.
#[derive(Debug)]
pub(super) struct Window {
    bytes: Vec<u8>,
    from: u64,
    /// End of the bytes that were read.
    till: u64,
}

impl Window {
    pub(super) const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            from: 0,
            till: 0,
        }
    }

    /// Returns the bytes of `range`, which are read unless they are in the window. With it are read the next bytes
    /// before `end`.
    pub(super) fn get<E>(
        &mut self,
        range: Range<u64>,
        end: u64,
        read: impl FnOnce(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<&[u8], E> {
        if range.start < self.from || range.end > self.till {
            self.load(&range, end, read)?;
        }
        let at = (range.start - self.from) as usize;
        Ok(&self.bytes[at..at + (range.end - range.start) as usize])
    }

    fn load<E>(
        &mut self,
        range: &Range<u64>,
        end: u64,
        read: impl FnOnce(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let kept = if (self.from..self.till).contains(&range.start) {
            let at = (range.start - self.from) as usize;
            self.bytes
                .copy_within(at..(self.till - self.from) as usize, 0);
            (self.till - range.start) as usize
        } else {
            0
        };
        let len = (range.end - range.start) as usize;
        let more = (len.saturating_sub(kept)).max(READ) as u64;
        let till = (range.start + kept as u64 + more).min(end).max(range.end);
        self.bytes.resize((till - range.start) as usize, 0);
        // if reading fails, nothing is there
        (self.from, self.till) = (range.start, range.start);
        read(range.start + kept as u64, &mut self.bytes[kept..])?;
        self.till = till;
        Ok(())
    }
}
