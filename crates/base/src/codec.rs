//! Reading octets that a peer wrote, big-endian, without ever panicking.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// The octets are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed message")
    }
}

impl core::error::Error for Malformed {}

/// Takes numbers and slices from the front of `rest`.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the start of `octets`.
    pub const fn new(octets: &'a [u8]) -> Self {
        Self { rest: octets }
    }

    /// The next `count` octets.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next `N` octets as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    /// The next octet.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_be_bytes)
    }

    /// The next two octets.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    /// The next four octets.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next eight octets.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// A number of one to ten octets, seven bits each, least first (LEB128).
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

    /// A range behind one that ended at `done`, which it does not touch: a varint of how far it is from there, which
    /// only from zero may be nothing, and a varint of its length.
    pub fn range(&mut self, done: u64) -> Result<Range<u64>, Malformed> {
        let (away, len) = (self.varint()?, self.varint()?);
        if len == 0 || (away == 0 && done > 0) {
            return Err(Malformed);
        }
        let start = done.checked_add(away).ok_or(Malformed)?;
        Ok(start..start.checked_add(len).ok_or(Malformed)?)
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    /// Whether nothing is left.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Fails unless everything has been read.
    pub const fn finish(self) -> Result<(), Malformed> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}

/// Appends `range` as [`Reader::range`] reads it, and answers its end.
pub fn put_range(out: &mut Vec<u8>, done: u64, range: &Range<u64>) -> u64 {
    debug_assert!(done <= range.start && !range.is_empty());
    put_varint(out, range.start - done);
    put_varint(out, range.end - range.start);
    range.end
}

/// Appends `value` as [`Reader::varint`] reads it.
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
    fn ranges_are_apart_and_have_an_end() {
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
        fn a_varint_survives_the_wire(value: u64) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn ranges_survive_the_wire(steps in prop::collection::vec((1_u64..1 << 40, 1_u64..1 << 40), 0..20)) {
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
        fn any_octets_read_without_panic(octets: Vec<u8>, done: u64) {
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
