//! A range of an object.

/// `len` bytes of the object from `offset` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Where it begins, in bytes from the object's start.
    pub offset: u64,
    /// How many bytes it has.
    pub len: u32,
}

impl Span {
    /// The span of `len` bytes at `offset`.
    pub const fn new(offset: u64, len: u32) -> Self {
        Self { offset, len }
    }

    /// The first byte after it.
    pub const fn end(self) -> u64 {
        self.offset + self.len as u64
    }
}
