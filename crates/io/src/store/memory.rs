//! Object in memory, or object of any length whose bytes repeat.

use lighthaul_base::Span;

use crate::error::Error;
use crate::store::Store;
use crate::store::block::Block;

/// Object whose bytes repeat every `ring.len()` bytes. Received bytes are kept or dropped.
#[derive(Debug)]
pub struct Memory {
    ring: Block,
    keep: bool,
}

impl Memory {
    /// Creates an object of the repeated bytes of `ring`. Received bytes are copied into the ring
    /// if `keep` is set ("copy"), else dropped ("fake"). Panics if the ring is empty.
    pub fn new(ring: Block, keep: bool) -> Self {
        assert!(!ring.is_empty(), "an object in memory has bytes");
        Self { ring, keep }
    }

    /// Returns the bytes of the ring.
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
