//! An object in memory, or one that only looks as large as it is.

use lighthaul_base::Span;

use crate::block::Block;
use crate::error::Error;
use crate::store::Store;

/// An object whose bytes repeat every `ring.len()` bytes; what is placed may be kept or thrown away.
#[derive(Debug)]
pub struct Memory {
    ring: Block,
    scratch: Vec<u8>,
    used: usize,
    sealed: bool,
    keep: bool,
}

impl Memory {
    /// Room for bodies on the way out: two trains of the largest kind.
    const SCRATCH: usize = 256 << 10;

    /// An object made of `ring` over and over. `sealed` says that bodies will be encrypted in place,
    /// `keep` that what comes is copied into the ring ("copy") rather than dropped ("fake").
    pub fn new(ring: Block, sealed: bool, keep: bool) -> Self {
        assert!(!ring.is_empty(), "an object in memory has bytes");
        Self {
            ring,
            scratch: vec![0; Self::SCRATCH],
            used: 0,
            sealed,
            keep,
        }
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
    fn gather(&mut self, span: Span) -> Result<&mut [u8], Error> {
        let (start, len) = (self.start(span), span.len as usize);
        if !self.sealed {
            return Ok(&mut self.ring[start..start + len]);
        }
        let room = &mut self.scratch[self.used..self.used + len];
        self.used += len;
        room.copy_from_slice(&self.ring[start..start + len]);
        Ok(room)
    }

    fn sent(&mut self) {
        self.used = 0;
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
