//! Layout of parts of files in an object, one after the other.
//!
//! ```text
//! object: | piece | piece |  padding  | large piece  | piece | ...
//!                                     ^ multiple of 4096 bytes
//! ```
//!
//! Both sides compute the same [`Layout`] from the same list of [`Piece`]s, so that offsets do not
//! travel. Padding belongs to no file. [`Layout::new`] rejects lists that a peer may not send.

use std::ops::Range;

use lighthaul_base::Malformed;
use serde::{Deserialize, Serialize};

/// Length from which a piece starts at a page of the object, so that it can be written in whole
/// pages.
pub const LARGE: u64 = 1 << 20;
/// Alignment of large pieces.
pub const PAGE: u64 = 4096;
/// Maximum number of pieces of an object.
pub const PIECES_MAX: usize = 1 << 14;
/// Maximum number of bytes of an object.
pub const OBJECT_MAX: u64 = 1 << 36;

/// Range of bytes in a file: begin and end.
pub type Span = (u64, u64);

/// Part of a file in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Number of the file among all entries.
    pub entry: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Length in bytes, never zero.
    pub len: u64,
}

impl Piece {
    /// Returns the end offset of the piece in the file.
    pub const fn end(&self) -> u64 {
        self.offset + self.len
    }
}

/// Offsets of the pieces of an object.
#[derive(Debug, Default)]
pub struct Layout {
    pieces: Vec<Piece>,
    starts: Vec<u64>,
    len: u64,
}

impl Layout {
    /// Creates the layout of an object of `pieces`.
    pub fn new(pieces: Vec<Piece>) -> Result<Self, Malformed> {
        let mut layout = Self::default();
        for piece in &pieces {
            let end = piece.offset.checked_add(piece.len);
            if piece.len == 0 || piece.len > OBJECT_MAX || end.is_none() {
                return Err(Malformed);
            }
            let start = if piece.len >= LARGE {
                layout.len.next_multiple_of(PAGE)
            } else {
                layout.len
            };
            layout.starts.push(start);
            layout.len = start + piece.len;
            if layout.len > OBJECT_MAX {
                return Err(Malformed);
            }
        }
        if pieces.is_empty() || pieces.len() > PIECES_MAX {
            return Err(Malformed);
        }
        layout.pieces = pieces;
        Ok(layout)
    }

    /// Returns the pieces, in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Returns the length of the object in bytes.
    pub const fn object_len(&self) -> u64 {
        self.len
    }

    /// Returns the index of the piece at `position`, and the offset of that position in the piece.
    /// Returns `None` in padding and at the end of the object.
    pub fn piece_at(&self, position: u64) -> Option<(usize, u64)> {
        if position >= self.len {
            return None;
        }
        let part = self.parts(position, 1).next()?;
        Some((part.index, part.at))
    }

    /// Returns the parts of pieces in the `len` bytes at `offset`, in order. Padding for alignment
    /// is left out.
    pub fn parts(&self, offset: u64, len: usize) -> impl Iterator<Item = PiecePart> + '_ {
        let end = offset + len as u64;
        let first = self.starts.partition_point(|start| *start <= offset);
        (first.saturating_sub(1)..self.pieces.len())
            .take_while(move |index| self.starts[*index] < end)
            .filter_map(move |index| {
                let start = self.starts[index];
                let from = start.max(offset);
                let till = (start + self.pieces[index].len).min(end);
                (from < till).then(|| PiecePart {
                    index,
                    at: from - start,
                    range: (from - offset) as usize..(till - offset) as usize,
                })
            })
    }
}

/// Part of a piece within a range of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PiecePart {
    /// Index of the piece.
    pub index: usize,
    /// Offset in the piece.
    pub at: u64,
    /// Bytes of the range that belong to the piece.
    pub range: Range<usize>,
}

/// Returns the bytes that are in both `left` and `right`, each in order.
pub fn within(left: &[Span], right: &[Span]) -> Vec<Span> {
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    let mut both = Vec::new();
    while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
        let span = (one.0.max(other.0), one.1.min(other.1));
        if one.1 <= other.1 {
            left.next();
        } else {
            right.next();
        }
        if span.0 < span.1 {
            both.push(span);
        }
    }
    both
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(len: u64) -> Piece {
        Piece {
            entry: 0,
            offset: 0,
            len,
        }
    }

    #[test]
    fn invalid_pieces_are_rejected() {
        let end = Piece {
            offset: u64::MAX,
            ..piece(1)
        };
        for pieces in [
            vec![],
            vec![piece(0)],
            vec![piece(u64::MAX)],
            vec![piece(OBJECT_MAX), piece(1)],
            vec![end],
            vec![piece(1); PIECES_MAX + 1],
        ] {
            assert!(Layout::new(pieces).is_err());
        }
    }

    #[test]
    fn piece_at_a_position_is_found_and_none_after_the_end() {
        let layout = Layout::new(vec![piece(7), piece(3), piece(LARGE)]).unwrap();
        for (position, piece) in [
            (0, Some((0, 0))),
            (6, Some((0, 6))),
            (7, Some((1, 0))),
            (10, None),
            (PAGE, Some((2, 0))),
            (PAGE + LARGE - 1, Some((2, LARGE - 1))),
            (PAGE + LARGE, None),
            (u64::MAX, None),
        ] {
            assert_eq!(layout.piece_at(position), piece, "{position}");
        }
    }

    proptest! {
        #[test]
        fn every_byte_is_cut_once_and_large_pieces_start_at_a_page(
            lens in prop::collection::vec(
                prop_oneof![1_u64..100, LARGE - 10..LARGE + 10_000], 1..20),
            step in 1_usize..3_000_000,
        ) {
            let layout = Layout::new(lens.iter().map(|len| piece(*len)).collect()).unwrap();
            let mut next = vec![0; lens.len()];
            let mut offset = 0;
            while offset < layout.object_len() {
                for part in layout.parts(offset, step) {
                    prop_assert_eq!(part.at, next[part.index]);
                    next[part.index] += part.range.len() as u64;
                    let start = offset + part.range.start as u64 - part.at;
                    prop_assert!(lens[part.index] < LARGE || start.is_multiple_of(PAGE));
                }
                offset += step as u64;
            }
            prop_assert_eq!(next, lens);
        }
    }
}
