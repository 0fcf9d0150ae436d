//! Wire format of a striped transfer. All messages are on streams.
//!
//! A head begins with its type: 1 packet, 2 completion reported by the receiver, 3 broken stream. The packet number
//! (64 bits) or the stream's index (16 bits, from 1) follows.

use lighthaul_base::{Body, Head, Malformed, Reader, Span, Transmit, Via};

/// Decoded head of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StripeMessage {
    /// Packet, whose bytes are the body.
    Packet {
        /// Packet number.
        number: u64,
    },
    /// The receiver has the whole object.
    Whole,
    /// A stream broke. Perhaps only the receiver noticed.
    Broken {
        /// Index of the stream. The first stream that carries packets has index 1.
        stream: u16,
    },
}

impl StripeMessage {
    /// Decodes a head.
    pub fn decode(head: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(head);
        let message = match reader.u8()? {
            PACKET => Self::Packet {
                number: reader.u64()?,
            },
            WHOLE => Self::Whole,
            BROKEN => Self::Broken {
                stream: reader.u16()?,
            },
            _ => return Err(Malformed),
        };
        reader.finish()?;
        Ok(message)
    }

    /// Returns the encoded head.
    pub fn encode(self) -> Head {
        let mut octets = [0; HEAD_LEN];
        let len = match self {
            Self::Packet { number } => {
                octets[0] = PACKET;
                octets[1..].copy_from_slice(&number.to_be_bytes());
                HEAD_LEN
            }
            Self::Whole => {
                octets[0] = WHOLE;
                1
            }
            Self::Broken { stream } => {
                octets[0] = BROKEN;
                octets[1..3].copy_from_slice(&stream.to_be_bytes());
                3
            }
        };
        Head::new(&octets[..len])
    }
}

/// Returns packet `number`, whose bytes are `span`.
pub fn packet(stream: u16, number: u64, span: Span) -> Transmit {
    Transmit {
        via: Via::Stream(stream),
        head: StripeMessage::Packet { number }.encode(),
        body: Body::Object(span),
    }
}

/// Returns the report of completion.
pub fn whole(stream: u16) -> Transmit {
    Transmit {
        via: Via::Stream(stream),
        head: StripeMessage::Whole.encode(),
        body: Body::None,
    }
}

/// Returns the report that the stream with index `broken` broke.
pub fn broken(stream: u16, broken: u16) -> Transmit {
    let message = StripeMessage::Broken { stream: broken };
    Transmit {
        via: Via::Stream(stream),
        head: message.encode(),
        body: Body::None,
    }
}

/// Length of a packet's head in octets.
pub const HEAD_LEN: usize = 9;

const PACKET: u8 = 1;
const WHOLE: u8 = 2;
const BROKEN: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn heads_round_trip(number: u64, stream: u16) {
            for message in [
                StripeMessage::Packet { number },
                StripeMessage::Whole,
                StripeMessage::Broken { stream },
            ] {
                prop_assert_eq!(StripeMessage::decode(message.encode().as_slice()), Ok(message));
            }
        }

        #[test]
        fn arbitrary_octets_decode_without_panic(octets: Vec<u8>) {
            if let Ok(message) = StripeMessage::decode(&octets) {
                let head = message.encode();
                prop_assert_eq!(head.as_slice(), &octets[..]);
            }
        }
    }
}
