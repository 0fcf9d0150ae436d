//! What crosses between the two sides of a striped transfer, all of it on streams.
//!
//! The first octet is the kind: 1 a packet, 2 the receiver's word that the object is whole. The object's
//! number follows, and of a packet its own.

use lighthaul_base::{Body, Head, Malformed, Reader, Span, Transmit, Via};

/// A decoded head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Bytes of the object follow.
    Packet {
        /// Which object.
        object: u32,
        /// The packet.
        number: u64,
    },
    /// All of the object is there.
    Whole {
        /// Which object.
        object: u32,
    },
}

impl Part {
    /// Reads a head.
    pub fn decode(head: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(head);
        let (kind, object) = (reader.u8()?, reader.u32()?);
        let part = match kind {
            PACKET => Self::Packet {
                object,
                number: reader.u64()?,
            },
            WHOLE => Self::Whole { object },
            _ => return Err(Malformed),
        };
        reader.finish()?;
        Ok(part)
    }

    /// The head.
    pub fn encode(self) -> Head {
        let mut octets = [0; HEAD_LEN];
        match self {
            Self::Packet { object, number } => {
                octets[0] = PACKET;
                octets[1..5].copy_from_slice(&object.to_be_bytes());
                octets[5..].copy_from_slice(&number.to_be_bytes());
                Head::new(&octets)
            }
            Self::Whole { object } => {
                octets[0] = WHOLE;
                octets[1..5].copy_from_slice(&object.to_be_bytes());
                Head::new(&octets[..5])
            }
        }
    }
}

/// Packet `number` of `object`, whose bytes are `span`.
pub fn packet(stream: u16, object: u32, number: u64, span: Span) -> Transmit {
    Transmit {
        via: Via::Stream(stream),
        head: Part::Packet { object, number }.encode(),
        body: Body::Object(span),
    }
}

/// The word that all of `object` is there.
pub fn whole(stream: u16, object: u32) -> Transmit {
    Transmit {
        via: Via::Stream(stream),
        head: Part::Whole { object }.encode(),
        body: Body::None,
    }
}

/// Octets of a packet's head.
pub const HEAD_LEN: usize = 13;

const PACKET: u8 = 1;
const WHOLE: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn heads_survive_the_wire(object: u32, number: u64) {
            for part in [Part::Packet { object, number }, Part::Whole { object }] {
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
