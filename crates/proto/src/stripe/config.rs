//! What both sides of a transfer agree on.

use core::fmt;

use lighthaul_base::Rate;

use super::wire::HEAD_LEN;
use crate::parts::{Cut, cut};

/// One transfer; the same on both sides except where a field says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes of the object.
    pub object_len: u64,
    /// Bytes of the object in a packet; the last may have fewer.
    pub packet_len: u32,
    /// Bits a second of packets and their heads. The receiver ignores it.
    pub rate: Rate,
    /// The first stream, which carries the receiver's word, and packets where no other can.
    pub stream: u16,
    /// How many streams behind it carry packets.
    pub streams: u16,
}

impl Config {
    /// Tells whether a transfer can be made of this.
    pub fn check(&self) -> Result<(), Misuse> {
        self.cut()
            .check(PACKET_LEN_MAX.into(), PACKETS_MAX)
            .map_err(Misuse::Cut)?;
        if self.streams > STREAMS_MAX || self.stream.checked_add(self.streams).is_none() {
            return Err(Misuse::Streams(self.streams));
        }
        Ok(())
    }

    /// The object as its packets cut it.
    pub const fn cut(&self) -> Cut {
        Cut {
            object_len: self.object_len,
            packet_len: self.packet_len,
        }
    }

    /// How many packets the object has.
    pub fn packets(&self) -> u64 {
        self.cut().packets()
    }

    /// What a packet with a body of `len` bytes costs.
    pub const fn wire_bytes(&self, len: u32) -> u32 {
        HEAD_LEN as u32 + len
    }

    /// Which of the transfer's streams this is, from 0.
    pub(super) const fn index(&self, stream: u16) -> Option<u16> {
        match stream.checked_sub(self.stream) {
            Some(index) if index <= self.streams => Some(index),
            _ => None,
        }
    }
}

/// What cannot be made into a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// Packets of such a size, or so many, cannot be.
    Cut(cut::Misuse),
    /// More streams than [`STREAMS_MAX`], or than there are numbers for.
    Streams(u16),
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut(misuse) => misuse.fmt(f),
            Self::Streams(streams) => write!(
                f,
                "{streams} streams are more than {STREAMS_MAX}, or than there are numbers for"
            ),
        }
    }
}

impl core::error::Error for Misuse {}

/// The most bytes of the object in a packet.
pub const PACKET_LEN_MAX: u32 = 1 << 20;
/// The most packets in one object: which stream has which takes as many bytes.
pub const PACKETS_MAX: u64 = 1 << 22;
/// The most streams behind the first.
pub const STREAMS_MAX: u16 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: Config = Config {
        object_len: 10_001,
        packet_len: 1000,
        rate: Rate::UNLIMITED,
        stream: 2,
        streams: 4,
    };

    #[test]
    fn streams_are_the_first_and_those_behind_it() {
        let indices: [_; 7] = core::array::from_fn(|stream| CONFIG.index(stream as u16 + 1));
        let expected = [None, Some(0), Some(1), Some(2), Some(3), Some(4), None];
        assert_eq!(indices, expected);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let with = |change: fn(&mut Config)| {
            let mut config = CONFIG;
            change(&mut config);
            config.check().unwrap_err()
        };
        assert_eq!(CONFIG.check(), Ok(()));
        assert!(matches!(with(|c| c.packet_len += 1 << 20), Misuse::Cut(_)));
        assert!(matches!(with(|c| c.object_len = u64::MAX), Misuse::Cut(_)));
        assert_eq!(with(|c| c.streams = 33), Misuse::Streams(33));
        assert_eq!(with(|c| c.stream = u16::MAX), Misuse::Streams(4));
    }
}
