//! Framing of messages or objects in a sequence of octets.
//!
//! [`Frames`] is the format, and a [`Cutter`] splits arriving octets into frames of any division of
//! the input. A frame above the limit fails with [`TooLong`] before it is complete, so memory stays
//! bounded. Each octet is searched for a line feed only once. [`Frames::write`] writes one frame,
//! and does not check that a line has no line feed inside.

use std::io::{self, Write};
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// Framing of messages or objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Frames {
    /// Lines: each frame ends with a line feed, which is not part of the frame.
    Lines,
    /// Length prefix: each frame begins with its length in four octets, big-endian.
    Prefixed,
    /// Frames of the given length; the last may be shorter. Frames without octets would never end.
    Fixed(NonZeroU32),
}

/// Decoder that splits octets into frames as they arrive.
#[derive(Debug)]
pub struct Cutter {
    frames: Frames,
    len_max: usize,
    /// Octets of incomplete frames, from `start` on.
    rest: Vec<u8>,
    start: usize,
    /// Offset up to which no line feed was found.
    looked: usize,
}

/// Error of a frame that is longer than the limit, with its length as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong(pub usize);

impl Cutter {
    /// Creates a decoder of frames of at most `len_max` octets.
    pub const fn new(frames: Frames, len_max: usize) -> Self {
        Self {
            frames,
            len_max,
            rest: Vec::new(),
            start: 0,
            looked: 0,
        }
    }

    /// Adds octets.
    pub fn push(&mut self, octets: &[u8]) {
        self.rest.drain(..self.start);
        self.looked -= self.start;
        self.start = 0;
        self.rest.extend_from_slice(octets);
    }

    /// Returns the next complete frame, or none if more octets are needed.
    pub fn cut(&mut self) -> Result<Option<&[u8]>, TooLong> {
        let rest = &self.rest[self.start..];
        let (skip, len, tail) = match self.frames {
            Frames::Lines => {
                let end = self.rest[self.looked..]
                    .iter()
                    .position(|octet| *octet == b'\n');
                let Some(more) = end else {
                    self.looked = self.rest.len();
                    return self.unless_too_long(self.rest.len() - self.start);
                };
                (0, self.looked + more - self.start, 1)
            }
            Frames::Prefixed => match rest.first_chunk() {
                Some(len) => (4, u32::from_be_bytes(*len) as usize, 0),
                None => return Ok(None),
            },
            Frames::Fixed(len) => (0, len.get() as usize, 0),
        };
        if len > self.len_max {
            return Err(TooLong(len));
        }
        if rest.len() < skip + len + tail {
            return Ok(None);
        }
        let from = self.start + skip;
        self.start = from + len + tail;
        self.looked = self.start;
        Ok(Some(&self.rest[from..from + len]))
    }

    /// Returns the octets left at the end: a last line without its line feed, or a last object that is too short. An
    /// incomplete frame with a length prefix is dropped.
    pub fn last(&self) -> Option<Vec<u8>> {
        let is_whole = !matches!(self.frames, Frames::Prefixed);
        let rest = &self.rest[self.start..];
        (is_whole && !rest.is_empty()).then(|| rest.to_vec())
    }

    fn unless_too_long(&self, len: usize) -> Result<Option<&[u8]>, TooLong> {
        if len > self.len_max {
            return Err(TooLong(len));
        }
        Ok(None)
    }
}

impl Frames {
    /// Writes one frame.
    pub fn write(self, octets: &[u8], out: &mut impl Write) -> io::Result<()> {
        if self == Self::Prefixed {
            out.write_all(&(octets.len() as u32).to_be_bytes())?;
        }
        out.write_all(octets)?;
        if self == Self::Lines {
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Splits `octets`, which arrive in pieces of `step`.
    fn cut(
        frames: Frames,
        octets: &[u8],
        step: usize,
        len_max: usize,
    ) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut cutter = Cutter::new(frames, len_max);
        let mut cut = Vec::new();
        for piece in octets.chunks(step) {
            cutter.push(piece);
            while let Some(frame) = cutter.cut()? {
                cut.push(frame.to_vec());
            }
        }
        cut.extend(cutter.last());
        Ok(cut)
    }

    fn fixed(len: u32) -> Frames {
        Frames::Fixed(NonZeroU32::new(len).unwrap())
    }

    #[test]
    fn last_frame_may_be_incomplete() {
        assert_eq!(
            cut(Frames::Lines, b"a\n\nbc", 2, 9).unwrap(),
            [&b"a"[..], b"", b"bc"]
        );
        assert_eq!(cut(fixed(2), b"abc", 1, 9).unwrap(), [&b"ab"[..], b"c"]);
        assert_eq!(
            cut(Frames::Prefixed, &[0, 0, 0, 1, 7, 0, 0, 0, 2, 8], 3, 9).unwrap(),
            [[7]]
        );
    }

    #[test]
    fn too_long_frame_is_detected_before_its_end() {
        assert_eq!(cut(Frames::Lines, b"abcd", 1, 3), Err(TooLong(4)));
        assert_eq!(
            cut(Frames::Prefixed, &[255; 4], 4, 3),
            Err(TooLong(u32::MAX as usize))
        );
        assert_eq!(cut(fixed(4), b"a", 1, 3), Err(TooLong(4)));
    }

    proptest! {
        #[test]
        fn written_frames_are_read_back(
            messages in prop::collection::vec("[a-z]{0,9}", 0..20), step in 1_usize..30,
        ) {
            for frames in [Frames::Lines, Frames::Prefixed, fixed(4)] {
                let mut octets = Vec::new();
                let messages: Vec<Vec<u8>> = messages.iter()
                    .map(|text| match frames {
                        Frames::Fixed(_) => b"four".to_vec(),
                        Frames::Lines | Frames::Prefixed => text.as_bytes().to_vec(),
                    })
                    .collect();
                for message in &messages {
                    frames.write(message, &mut octets).unwrap();
                }
                prop_assert_eq!(cut(frames, &octets, step, 9).unwrap(), messages);
            }
        }
    }
}
