//! Stretch of a source: copies of its basis, and the gaps between them.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::object::Span;

/// Maximum number of bytes of a stretch with copies. If its digest differs, all of its copies are sent.
pub const STRETCH_MAX: u64 = 4 << 20;
/// Maximum number of copies of a stretch.
pub const COPIES_MAX: usize = 1 << 10;

/// Part of a file that its basis has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// Offset in the new file.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
    /// Offset in the basis.
    pub from: u64,
}

impl Copied {
    /// Returns the range in the new file.
    pub const fn span(self) -> Span {
        (self.offset, self.offset + self.len)
    }
}

/// Stretch that grows.
#[derive(Debug, Default)]
pub struct Stretch {
    span: Span,
    copies: Vec<Copied>,
    /// Hash of the bytes of all copies.
    hash: blake3::Hasher,
}

impl Stretch {
    /// Returns true if nothing was added.
    pub const fn is_empty(&self) -> bool {
        self.span.0 == self.span.1
    }

    /// Returns true if the stretch is worth a message.
    pub const fn is_full(&self) -> bool {
        self.span.1 - self.span.0 >= STRETCH_MAX
    }

    /// Returns true if a copy of `len` bytes at `at` can be added.
    pub const fn fits_copy(&self, at: u64, len: u64) -> bool {
        self.follows(at, len) && self.copies.len() < COPIES_MAX
    }

    /// Returns true if the gap `span` can be added.
    pub const fn fits_gap(&self, span: Span) -> bool {
        let is_alone = self.copies.is_empty() && self.span.1 == span.0;
        is_alone || self.follows(span.0, span.1 - span.0)
    }

    const fn follows(&self, at: u64, len: u64) -> bool {
        self.is_empty() || self.span.1 == at && at + len - self.span.0 <= STRETCH_MAX
    }

    /// Adds bytes at `at` that the basis has at `from`.
    pub fn copy(&mut self, at: u64, from: u64, bytes: &[u8]) {
        let len = bytes.len() as u64;
        self.extend((at, at + len));
        self.hash.update(bytes);
        match self.copies.last_mut() {
            Some(last) if last.span().1 == at && last.from + last.len == from => last.len += len,
            _ => self.copies.push(Copied {
                offset: at,
                len,
                from,
            }),
        }
    }

    /// Adds a gap, which the basis does not have.
    pub const fn skip(&mut self, span: Span) {
        self.extend(span);
    }

    const fn extend(&mut self, span: Span) {
        if self.is_empty() {
            self.span.0 = span.0;
        }
        self.span.1 = span.1;
    }

    /// Returns the range of the stretch, its copies, and the digest of their bytes.
    pub fn finish(self) -> (Span, Vec<Copied>, Digest) {
        let digest = Digest::Blake3(*self.hash.finalize().as_bytes());
        (self.span, self.copies, digest)
    }
}

/// Returns the gaps between `copies`, which must be whole blocks of `block` bytes, in order, and within `span`. Returns
/// none if they are not, or have more bytes than a stretch may have.
///
/// A sender learns whether copies are what it guesses. It can only guess whole blocks.
pub fn gaps(span: Span, copies: &[Copied], block: u64) -> Option<Vec<Span>> {
    let (mut at, till) = span;
    let is_long = till.checked_sub(at)? > STRETCH_MAX;
    if is_long && !copies.is_empty() || copies.len() > COPIES_MAX {
        return None;
    }
    let mut gaps = Vec::new();
    for copied in copies {
        let end = copied.offset.checked_add(copied.len)?;
        copied.from.checked_add(copied.len)?;
        let is_whole = copied.len.is_multiple_of(block) && copied.from.is_multiple_of(block);
        if copied.offset < at || copied.len == 0 || end > till || !is_whole {
            return None;
        }
        if at < copied.offset {
            gaps.push((at, copied.offset));
        }
        at = end;
    }
    if at < till {
        gaps.push((at, till));
    }
    Some(gaps)
}
