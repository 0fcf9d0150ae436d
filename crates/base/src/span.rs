//! Byte range of an object.

/// Range of `len` bytes of the object that starts at `offset`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Offset of the first byte from the start of the object.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
}

impl Span {
    /// Returns the span of `len` bytes at `offset`.
    pub const fn new(offset: u64, len: u32) -> Self {
        Self { offset, len }
    }

    /// Returns the offset after the last byte.
    pub const fn end(self) -> u64 {
        self.offset + self.len as u64
    }
}
