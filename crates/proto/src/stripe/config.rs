//! What both sides of a transfer agree on.

use core::fmt;

use lighthaul_base::{Rate, Span};

use super::wire::HEAD_LEN;

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
        if !(1..=PACKET_LEN_MAX).contains(&self.packet_len) {
            return Err(Misuse::PacketLen(self.packet_len));
        }
        if self.packets() > PACKETS_MAX {
            return Err(Misuse::Packets(self.packets()));
        }
        if self.streams > STREAMS_MAX || self.stream.checked_add(self.streams).is_none() {
            return Err(Misuse::Streams(self.streams));
        }
        Ok(())
    }

    /// How many packets the object has.
    pub fn packets(&self) -> u64 {
        self.object_len.div_ceil(u64::from(self.packet_len.max(1)))
    }

    /// Where the body of packet `number` belongs; the number must be below [`Config::packets`].
    pub fn span(&self, number: u64) -> Span {
        let offset = number * u64::from(self.packet_len);
        debug_assert!(offset < self.object_len);
        let len = u64::from(self.packet_len).min(self.object_len - offset);
        Span::new(offset, len as u32)
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
    /// A packet of no bytes, or more than [`PACKET_LEN_MAX`].
    PacketLen(u32),
    /// More packets than [`PACKETS_MAX`].
    Packets(u64),
    /// More streams than [`STREAMS_MAX`], or than there are numbers for.
    Streams(u16),
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PacketLen(len) => write!(f, "a packet cannot have {len} bytes"),
            Self::Packets(packets) => write!(
                f,
                "{packets} packets are more than {PACKETS_MAX} in one object"
            ),
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
    fn packets_cover_the_object_exactly() {
        assert_eq!(CONFIG.check(), Ok(()));
        assert_eq!(CONFIG.packets(), 11);
        assert_eq!(CONFIG.span(9), Span::new(9000, 1000));
        assert_eq!(CONFIG.span(10), Span::new(10_000, 1));
    }

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
            config.check()
        };
        assert_eq!(with(|c| c.packet_len = 0), Err(Misuse::PacketLen(0)));
        let long = PACKET_LEN_MAX + 1;
        assert_eq!(
            with(|c| c.packet_len = PACKET_LEN_MAX + 1),
            Err(Misuse::PacketLen(long))
        );
        let packets = u64::MAX.div_ceil(1000);
        assert_eq!(
            with(|c| c.object_len = u64::MAX),
            Err(Misuse::Packets(packets))
        );
        assert_eq!(with(|c| c.streams = 33), Err(Misuse::Streams(33)));
        assert_eq!(with(|c| c.stream = u16::MAX), Err(Misuse::Streams(4)));
    }
}
