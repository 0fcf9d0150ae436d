//! What crosses between the elements of a cluster, big-endian and without padding.
//!
//! The first octet is the version, 1; then the kind (1 beat, 2 token, 3 propose, 4 answer), who says it, and to whom.

use alloc::vec::Vec;

use lighthaul_base::{Malformed, Reader};

/// How the manieth token this is: a count, and behind it who made it, so that no two are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(pub u64);

impl Generation {
    /// The next one above this that `me` may make.
    #[must_use]
    pub const fn after(self, me: u8) -> Self {
        Self(((self.0 >> 8).saturating_add(1) << 8) | me as u64)
    }
}

/// A token at one moment: its generation, and how often it was handed on. Of two, the higher is what holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Its generation.
    pub generation: Generation,
    /// How often it was handed on, or kept for another slot.
    pub sequence: u64,
}

impl Mark {
    /// The same token, once more handed on.
    #[must_use]
    pub const fn next(self) -> Self {
        Self {
            generation: self.generation,
            sequence: self.sequence.saturating_add(1),
        }
    }
}

/// A message of one element to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// Who says it.
    pub from: u8,
    /// To whom.
    pub to: u8,
    /// What.
    pub word: Word,
}

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Who says this lives.
    Beat {
        /// Counts up.
        count: u64,
        /// No token of a lower generation will be taken.
        pledge: Generation,
        /// It has something to send.
        wants: bool,
        /// It takes its part of what comes to the address that all share, if they do.
        serves: bool,
        /// It has the token.
        holds: Option<Mark>,
    },
    /// The token is yours.
    Token {
        /// As it is from now on.
        mark: Mark,
        /// Your last beat that was heard.
        beat: u64,
    },
    /// The token seems to be lost: may there be a new one?
    Propose {
        /// Of this generation.
        generation: Generation,
    },
    /// What the other thinks of that.
    Answer {
        /// The generation that was proposed.
        generation: Generation,
        /// Older ones will not be taken any more.
        agreed: bool,
    },
}

impl Words {
    /// The message's octets.
    pub fn encode(&self) -> Vec<u8> {
        let mut octets = Vec::from([VERSION, self.word.kind(), self.from, self.to]);
        let mut put = |number: u64| octets.extend(number.to_be_bytes());
        match self.word {
            Word::Beat {
                count,
                pledge,
                wants,
                serves,
                holds,
            } => {
                let mark = holds.unwrap_or_default();
                put(count);
                put(pledge.0);
                put(mark.generation.0);
                put(mark.sequence);
                let flags = [wants, holds.is_some(), serves];
                let bits = (0..).zip(flags);
                octets.push(bits.fold(0, |all, (nth, flag)| all | u8::from(flag) << nth));
            }
            Word::Token { mark, beat } => {
                put(mark.generation.0);
                put(mark.sequence);
                put(beat);
            }
            Word::Propose { generation } => put(generation.0),
            Word::Answer { generation, agreed } => {
                put(generation.0);
                octets.push(u8::from(agreed));
            }
        }
        octets
    }

    /// Reads a message.
    pub fn decode(octets: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        if reader.u8()? != VERSION {
            return Err(Malformed);
        }
        let kind = reader.u8()?;
        let (from, to) = (reader.u8()?, reader.u8()?);
        let word = Word::read(kind, &mut reader)?;
        reader.finish()?;
        Ok(Self { from, to, word })
    }
}

impl Word {
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
        let (count, pledge) = (reader.u64()?, Generation(reader.u64()?));
        let mark = read_mark(reader)?;
        let flags = reader.u8()?;
        let holds = (flags & 2 == 2).then_some(mark);
        if flags > 7 || holds.is_none() && mark != Mark::default() {
            return Err(Malformed);
        }
        Ok(Self::Beat {
            count,
            pledge,
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

/// What is said so.
pub const VERSION: u8 = 1;
/// No message is longer.
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

    fn any_word() -> impl Strategy<Value = Word> {
        let beat = (
            any::<(u64, u64, bool, bool)>(),
            proptest::option::of(any_mark()),
        );
        prop_oneof![
            beat.prop_map(|((count, pledge, wants, serves), holds)| Word::Beat {
                count,
                pledge: Generation(pledge),
                wants,
                serves,
                holds,
            }),
            (any_mark(), any::<u64>()).prop_map(|(mark, beat)| Word::Token { mark, beat }),
            any::<u64>().prop_map(|generation| Word::Propose {
                generation: Generation(generation),
            }),
            any::<(u64, bool)>().prop_map(|(generation, agreed)| Word::Answer {
                generation: Generation(generation),
                agreed,
            }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_said_is_heard(from: u8, to: u8, word in any_word()) {
            let words = Words { from, to, word };
            let octets = words.encode();
            prop_assert!(octets.len() <= LEN_MAX);
            prop_assert_eq!(Words::decode(&octets), Ok(words));
            prop_assert_eq!(Words::decode(&octets[..octets.len() - 1]), Err(Malformed));
        }

        #[test]
        fn what_is_read_is_written_the_same(octets: Vec<u8>) {
            if let Ok(words) = Words::decode(&octets) {
                prop_assert_eq!(words.encode(), octets);
            }
        }
    }

    #[test]
    fn no_two_elements_make_the_same_generation() {
        let first = Generation::default().after(3);
        assert!(first > Generation::default().after(2));
        assert!(first.after(0) > first);
        assert_ne!(first.after(0), first.after(1));
    }
}
