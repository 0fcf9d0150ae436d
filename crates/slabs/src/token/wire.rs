//! Wire format between the elements of a cluster, big-endian and without padding.
//!
//! A message begins with the version (1), the type (1 beat, 2 token, 3 propose, 4 answer), the sender and the
//! receiver, one octet each.

use alloc::vec::Vec;

use lighthaul_base::{Malformed, Reader};

/// Generation of a token: a counter, and in the low octet the element that created it, so that generations are unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(pub u64);

impl Generation {
    /// Returns the next generation that element `me` may create.
    #[must_use]
    pub const fn after(self, me: u8) -> Self {
        Self(((self.0 >> 8).saturating_add(1) << 8) | me as u64)
    }
}

/// State of a token: its generation, and how often it was passed on. The higher of two marks is valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Generation of the token.
    pub generation: Generation,
    /// Number of times that the token was passed on.
    pub sequence: u64,
}

impl Mark {
    /// Returns the mark of the token after it is passed on once more.
    #[must_use]
    pub const fn next(self) -> Self {
        Self {
            generation: self.generation,
            sequence: self.sequence.saturating_add(1),
        }
    }
}

/// Message of one element to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementMessage {
    /// Number of the sender.
    pub from: u8,
    /// Number of the receiver.
    pub to: u8,
    /// Contents.
    pub body: MessageBody,
}

/// Contents of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageBody {
    /// Heartbeat of the sender.
    Beat {
        /// Number of the beat, which increases.
        count: u64,
        /// Lowest generation of a token that the sender takes.
        generation_min: Generation,
        /// True if the sender has data to send.
        wants: bool,
        /// True if the sender takes its share of the traffic to the address that the cluster shares.
        serves: bool,
        /// Mark of the token, if the sender has it.
        holds: Option<Mark>,
    },
    /// The token is passed to the receiver.
    Token {
        /// New mark of the token.
        mark: Mark,
        /// Number of the receiver's latest beat that has reached the sender.
        beat: u64,
    },
    /// Proposal of a new token, since the old one seems to be lost.
    Propose {
        /// Generation of the new token.
        generation: Generation,
    },
    /// Answer to a proposal.
    Answer {
        /// Proposed generation.
        generation: Generation,
        /// True if the sender will not take older tokens.
        agreed: bool,
    },
}

impl ElementMessage {
    /// Returns the octets of the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut octets = Vec::from([VERSION, self.body.kind(), self.from, self.to]);
        let mut put = |number: u64| octets.extend(number.to_be_bytes());
        match self.body {
            MessageBody::Beat {
                count,
                generation_min,
                wants,
                serves,
                holds,
            } => {
                let mark = holds.unwrap_or_default();
                put(count);
                put(generation_min.0);
                put(mark.generation.0);
                put(mark.sequence);
                let flags = [wants, holds.is_some(), serves];
                let bits = (0..).zip(flags);
                octets.push(bits.fold(0, |all, (nth, flag)| all | u8::from(flag) << nth));
            }
            MessageBody::Token { mark, beat } => {
                put(mark.generation.0);
                put(mark.sequence);
                put(beat);
            }
            MessageBody::Propose { generation } => put(generation.0),
            MessageBody::Answer { generation, agreed } => {
                put(generation.0);
                octets.push(u8::from(agreed));
            }
        }
        octets
    }

    /// Decodes a message.
    pub fn decode(octets: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        if reader.u8()? != VERSION {
            return Err(Malformed);
        }
        let kind = reader.u8()?;
        let (from, to) = (reader.u8()?, reader.u8()?);
        let body = MessageBody::read(kind, &mut reader)?;
        reader.finish()?;
        Ok(Self { from, to, body })
    }
}

impl MessageBody {
    const fn kind(&self) -> u8 {
        match self {
            Self::Beat { .. } => 1,
            Self::Token { .. } => 2,
            Self::Propose { .. } => 3,
            Self::Answer { .. } => 4,
        }
    }

    fn read(kind: u8, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match kind {
            1 => Self::read_beat(reader),
            2 => Ok(Self::Token {
                mark: read_mark(reader)?,
                beat: reader.u64()?,
            }),
            3 => Ok(Self::Propose {
                generation: Generation(reader.u64()?),
            }),
            4 => Ok(Self::Answer {
                generation: Generation(reader.u64()?),
                agreed: match reader.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(Malformed),
                },
            }),
            _ => Err(Malformed),
        }
    }

    fn read_beat(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (count, generation_min) = (reader.u64()?, Generation(reader.u64()?));
        let mark = read_mark(reader)?;
        let flags = reader.u8()?;
        let holds = (flags & 2 == 2).then_some(mark);
        if flags > 7 || holds.is_none() && mark != Mark::default() {
            return Err(Malformed);
        }
        Ok(Self::Beat {
            count,
            generation_min,
            wants: flags & 1 == 1,
            serves: flags & 4 == 4,
            holds,
        })
    }
}

fn read_mark(reader: &mut Reader<'_>) -> Result<Mark, Malformed> {
    Ok(Mark {
        generation: Generation(reader.u64()?),
        sequence: reader.u64()?,
    })
}

/// Version of the wire format.
pub const VERSION: u8 = 1;
/// Maximum length of a message in octets.
pub const LEN_MAX: usize = 37;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_mark() -> impl Strategy<Value = Mark> {
        any::<(u64, u64)>().prop_map(|(generation, sequence)| Mark {
            generation: Generation(generation),
            sequence,
        })
    }

    fn any_word() -> impl Strategy<Value = MessageBody> {
        let beat = (
            any::<(u64, u64, bool, bool)>(),
            proptest::option::of(any_mark()),
        );
        prop_oneof![
            beat.prop_map(
                |((count, generation_min, wants, serves), holds)| MessageBody::Beat {
                    count,
                    generation_min: Generation(generation_min),
                    wants,
                    serves,
                    holds,
                }
            ),
            (any_mark(), any::<u64>()).prop_map(|(mark, beat)| MessageBody::Token { mark, beat }),
            any::<u64>().prop_map(|generation| MessageBody::Propose {
                generation: Generation(generation),
            }),
            any::<(u64, bool)>().prop_map(|(generation, agreed)| MessageBody::Answer {
                generation: Generation(generation),
                agreed,
            }),
        ]
    }

    proptest! {
        #[test]
        fn messages_round_trip(from: u8, to: u8, body in any_word()) {
            let message = ElementMessage { from, to, body };
            let octets = message.encode();
            prop_assert!(octets.len() <= LEN_MAX);
            prop_assert_eq!(ElementMessage::decode(&octets), Ok(message));
            prop_assert_eq!(ElementMessage::decode(&octets[..octets.len() - 1]), Err(Malformed));
        }

        #[test]
        fn decoded_messages_encode_to_the_same_octets(octets: Vec<u8>) {
            if let Ok(message) = ElementMessage::decode(&octets) {
                prop_assert_eq!(message.encode(), octets);
            }
        }
    }

    #[test]
    fn generations_of_different_elements_differ() {
        let first = Generation::default().after(3);
        assert!(first > Generation::default().after(2));
        assert!(first.after(0) > first);
        assert_ne!(first.after(0), first.after(1));
    }
}
