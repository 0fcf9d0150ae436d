//! Decoding of untrusted octets without panics, and the matching encoders.
//!
//! A [`Reader`] takes numbers and slices from the front of a byte slice. Numbers of fixed width are
//! big-endian, varints are unsigned LEB128. Missing octets and overflow are [`Malformed`].
//! [`put_varint`] and [`put_range`] write the encodings that the reader takes. The meaning of a
//! value is left to the caller, who calls [`Reader::finish`] to refuse trailing octets.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// Error for octets that do not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed message")
    }
}

impl core::error::Error for Malformed {}

/// Cursor that takes numbers and slices from the front of a byte slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Returns a reader at the start of `octets`.
    pub const fn new(octets: &'a [u8]) -> Self {
        Self { rest: octets }
    }

    /// Takes the next `count` octets.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Takes the next `N` octets as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    /// Takes the next octet.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_be_bytes)
    }

    /// Takes the next two octets as a big-endian number.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    /// Takes the next four octets as a big-endian number.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// Takes the next eight octets as a big-endian number.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// Takes an unsigned LEB128 number: one to ten octets of seven bits each, least significant first.
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let octet = self.u8()?;
            let bits = u64::from(octet & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Malformed);
            }
            value |= bits << shift;
            if octet & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// Takes the next range of a sorted list of ranges that do not touch; `done` is the end of the previous one. It
    /// is encoded as two varints: the distance from `done` to the start, and the length. A length of zero is
    /// malformed, and so is a distance of zero unless `done` is zero.
    pub fn range(&mut self, done: u64) -> Result<Range<u64>, Malformed> {
        let (away, len) = (self.varint()?, self.varint()?);
        if len == 0 || (away == 0 && done > 0) {
            return Err(Malformed);
        }
        let start = done.checked_add(away).ok_or(Malformed)?;
        Ok(start..start.checked_add(len).ok_or(Malformed)?)
    }

    /// Takes all remaining octets.
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    /// True if no octets remain.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Fails with [`Malformed`] unless all octets have been read.
    pub const fn finish(self) -> Result<(), Malformed> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}

/// Appends `range` in the encoding of [`Reader::range`], and returns its end.
pub fn put_range(out: &mut Vec<u8>, done: u64, range: &Range<u64>) -> u64 {
    debug_assert!(done <= range.start && !range.is_empty());
    put_varint(out, range.start - done);
    put_varint(out, range.end - range.start);
    range.end
}

/// Appends `value` in the encoding of [`Reader::varint`].
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn empty_touching_and_overflowing_ranges_are_malformed() {
        let max = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        let beyond = [&[1][..], &max].concat();
        for (octets, done, range) in [
            (&[0, 1][..], 0, Ok(0..1)),
            (&[0, 1], 1, Err(Malformed)),
            (&[1, 0], 1, Err(Malformed)),
            (&[1, 1], 1, Ok(2..3)),
            (&[1], 1, Err(Malformed)),
            (&[1, 1], u64::MAX, Err(Malformed)),
            (&beyond, 0, Err(Malformed)),
        ] {
            assert_eq!(Reader::new(octets).range(done), range, "{octets:?}");
        }
    }

    proptest! {
        #[test]
        fn varint_round_trips(value: u64) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn ranges_round_trip(steps in prop::collection::vec((1_u64..1 << 40, 1_u64..1 << 40), 0..20)) {
            let (mut out, mut done, mut put) = (Vec::new(), 0, Vec::new());
            for (away, len) in steps {
                put.push(done + away..done + away + len);
                done = put_range(&mut out, done, &put[put.len() - 1]);
            }
            let mut reader = Reader::new(&out);
            let mut done = 0;
            for range in put {
                prop_assert_eq!(reader.range(done), Ok(range.clone()));
                done = range.end;
            }
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn arbitrary_octets_decode_without_panic(octets: Vec<u8>, done: u64) {
            let mut reader = Reader::new(&octets);
            while let Ok(range) = reader.range(done) {
                prop_assert!(done <= range.start && range.start < range.end);
            }
            let mut reader = Reader::new(&octets);
            while reader.varint().is_ok() {}
            prop_assert!(reader.finish().is_ok() == reader.is_empty());
        }
    }
}
