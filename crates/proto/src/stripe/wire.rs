//! What crosses between the two sides of a striped transfer, all of it on streams.
//!
//! The first octet is the kind: 1 a packet, 2 the receiver's word that the object is whole, 3 that a stream
//! broke there. The number of the packet follows, or of the stream, from 1.

use lighthaul_base::{Body, Head, Malformed, Reader, Span, Transmit, Via};

/// A decoded head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Bytes of the object follow.
    Packet {
        /// The packet.
        number: u64,
    },
    /// All of the object is there.
    Whole,
    /// A stream broke, which perhaps only the receiver sees.
    Broken {
        /// Which stream, the first of those that carry packets being 1.
        stream: u16,
    },
}

impl Part {
    /// Reads a head.
    pub fn decode(head: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(head);
        let part = match reader.u8()? {
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
        Ok(part)
    }

    /// The head.
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

/// Packet `number`, whose bytes are `span`.
pub fn packet(stream: u16, number: u64, span: Span) -> Transmit {
    Transmit {
        via: Via::Stream(stream),
        head: Part::Packet { number }.encode(),
        body: Body::Object(span),
    }
}

/// The word that all of the object is there.
pub fn whole(stream: u16) -> Transmit {
    Transmit {
        via: Via::Stream(stream),
        head: Part::Whole.encode(),
        body: Body::None,
    }
}

/// The word that stream number `broken` of those that carry packets broke.
pub fn broken(stream: u16, broken: u16) -> Transmit {
    let part = Part::Broken { stream: broken };
    Transmit {
        via: Via::Stream(stream),
        head: part.encode(),
        body: Body::None,
    }
}

/// Octets of a packet's head.
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
        fn heads_survive_the_wire(number: u64, stream: u16) {
            for part in [
                Part::Packet { number },
                Part::Whole,
                Part::Broken { stream },
            ] {
                prop_assert_eq!(Part::decode(part.encode().as_slice()), Ok(part));
            }
        }

        #[test]
        fn any_octets_decode_without_panic(octets: Vec<u8>) {
            if let Ok(part) = Part::decode(&octets) {
                let head = part.encode();
                prop_assert_eq!(head.as_slice(), &octets[..]);
            }
        }
    }
}
