//! Wire format of a message stream.
//!
//! The head of a datagram has twelve octets, big-endian: block number (48 bits), source count (8), symbol number (8),
//! time stamp (32). The source count is the number of source symbols that the block was closed with, and zero in a
//! source symbol. Repair symbols are numbered after the source symbols of a full block (RFC 5052's encoding symbol
//! ID). The first eight octets are unique. The time stamp tells when the message, or the first one of the block, was
//! offered. It is in microseconds of the sender's clock and wraps around after 71 minutes.
//!
//! The only message on the stream is the end: an octet 1, and the numbers of messages offered and sent.

use lighthaul_base::{Body, Head, Malformed, Reader, Transmit, Via};

/// Decoded head of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Block number, below 2^48.
    pub block: u64,
    /// Number of source symbols in the block if this is a repair symbol; otherwise zero.
    pub count: u8,
    /// Symbol number within the block.
    pub symbol: u8,
    /// Time of the offer, in microseconds.
    pub stamp: u32,
}

impl Packet {
    /// Returns the octets of the head.
    pub fn encode(self) -> [u8; HEAD_LEN] {
        debug_assert!(self.block < BLOCKS_MAX);
        let id = self.block << 16 | u64::from(self.count) << 8 | u64::from(self.symbol);
        let mut head = [0; HEAD_LEN];
        head[..8].copy_from_slice(&id.to_be_bytes());
        head[8..].copy_from_slice(&self.stamp.to_be_bytes());
        head
    }

    /// Decodes a head.
    pub fn decode(head: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(head);
        let id = reader.u64()?;
        let stamp = reader.u32()?;
        reader.finish()?;
        Ok(Self {
            block: id >> 16,
            count: (id >> 8) as u8,
            symbol: id as u8,
            stamp,
        })
    }
}

/// Last message of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Number of messages offered.
    pub offered: u64,
    /// Number of messages sent. The others were late before they could be sent.
    pub sent: u64,
}

impl End {
    /// Returns the message as a transmission.
    pub fn encode(self, stream: u16) -> Transmit {
        let mut head = [0; 17];
        head[0] = END;
        head[1..9].copy_from_slice(&self.offered.to_be_bytes());
        head[9..].copy_from_slice(&self.sent.to_be_bytes());
        Transmit {
            via: Via::Stream(stream),
            head: Head::new(&head),
            body: Body::None,
        }
    }

    /// Decodes the message. More messages sent than offered are malformed.
    pub fn decode(head: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(head);
        if reader.u8()? != END {
            return Err(Malformed);
        }
        let (offered, sent) = (reader.u64()?, reader.u64()?);
        reader.finish()?;
        if sent > offered {
            return Err(Malformed);
        }
        Ok(Self { offered, sent })
    }
}

/// Length of a datagram's head in octets.
pub const HEAD_LEN: usize = 12;
/// Upper limit of block numbers (exclusive).
pub const BLOCKS_MAX: u64 = 1 << 48;

const END: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wire_format_is_stable() {
        let packet = Packet {
            block: 0x0102_0304_0506,
            count: 7,
            symbol: 8,
            stamp: 0x090a_0b0c,
        };
        assert_eq!(packet.encode(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        let end = End {
            offered: 258,
            sent: 3,
        }
        .encode(5);
        assert_eq!(end.via, Via::Stream(5));
        assert_eq!(
            end.head.as_slice(),
            [1, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 3]
        );
    }

    #[test]
    fn invalid_messages_are_malformed() {
        for head in [&[][..], &[1; 11], &[1; 13]] {
            assert_eq!(Packet::decode(head), Err(Malformed), "{head:?}");
        }
        let end = End {
            offered: 1,
            sent: 1,
        }
        .encode(0);
        let end = end.head.as_slice();
        let more_than_offered = [&end[..16], &[2]].concat();
        for head in [
            &[][..],
            &[2; 17],
            &end[..16],
            &[end, &[0]].concat(),
            &more_than_offered,
        ] {
            assert_eq!(End::decode(head), Err(Malformed), "{head:?}");
        }
    }

    proptest! {
        #[test]
        fn messages_round_trip(
            block in 0..BLOCKS_MAX, count: u8, symbol: u8, stamp: u32, offered: u64, late: u64,
        ) {
            let packet = Packet { block, count, symbol, stamp };
            prop_assert_eq!(Packet::decode(&packet.encode()), Ok(packet));
            let end = End { offered, sent: offered.saturating_sub(late) };
            prop_assert_eq!(End::decode(end.encode(1).head.as_slice()), Ok(end));
        }
    }
}
