//! An object in memory, or one that only looks as large as it is.

use lighthaul_base::Span;

use crate::block::Block;
use crate::error::Error;
use crate::store::Store;

/// An object whose bytes repeat every `ring.len()` bytes; what is placed may be kept or thrown away.
#[derive(Debug)]
pub struct Memory {
    ring: Block,
    keep: bool,
}

impl Memory {
    /// An object made of `ring` over and over. `keep` says that what comes is copied into the ring
    /// ("copy") rather than dropped ("fake").
    pub fn new(ring: Block, keep: bool) -> Self {
        assert!(!ring.is_empty(), "an object in memory has bytes");
        Self { ring, keep }
    }

    /// The bytes it holds.
    pub fn ring(&self) -> &[u8] {
        &self.ring
    }

    fn start(&self, span: Span) -> usize {
        let len = span.len as usize;
        let start = (span.offset % self.ring.len() as u64) as usize;
        if start + len <= self.ring.len() {
            start
        } else {
            0
        }
    }
}

impl Store for Memory {
    fn gather(&mut self, span: Span) -> Result<&[u8], Error> {
        let (start, len) = (self.start(span), span.len as usize);
        Ok(&self.ring[start..start + len])
    }

    fn slot(&mut self, span: Span) -> Result<Option<&mut [u8]>, Error> {
        if !self.keep {
            return Ok(None);
        }
        let (start, len) = (self.start(span), span.len as usize);
        Ok(Some(&mut self.ring[start..start + len]))
    }

    fn landing(&mut self, span: Span) -> Option<&mut [u8]> {
        let (start, len) = (self.start(span), span.len as usize);
        self.keep.then(|| &mut self.ring[start..start + len])
    }
}
