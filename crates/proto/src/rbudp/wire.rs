//! Wire format of RBUDP.
//!
//! The head of a datagram has eight octets, big-endian. The upper 16 bits are the round. The next bit is set in the
//! second transmission of a round. The lower 47 bits are the packet number. Each combination occurs at most once. So
//! the head can serve as the nonce of the encryption, even if the body has changed in the meantime.
//!
//! A message on the stream begins with its type: 1 done signal, 2 tally, 3 hold, 4 pause, 5 window.

use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::{Body, Head, Malformed, Reader, Transmit, Via};
use lighthaul_parts::Tally;

use super::pause::{Pause, PauseMessage};

/// Decoded head of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Number of the blast, from 1.
    pub round: u16,
    /// True in the second transmission of the blast.
    pub again: bool,
    /// Packet number, below 2^47.
    pub number: u64,
}

impl Packet {
    /// Returns the octets of the head.
    pub const fn encode(self) -> [u8; HEAD_LEN] {
        debug_assert!(self.number < 1 << NUMBER_BITS);
        let round = (self.round as u64) << 1 | self.again as u64;
        (round << NUMBER_BITS | self.number).to_be_bytes()
    }

    /// Decodes a head. Round 0 is malformed.
    pub fn decode(head: &[u8]) -> Result<Self, Malformed> {
        let octets: [u8; HEAD_LEN] = head.try_into().map_err(|_| Malformed)?;
        let word = u64::from_be_bytes(octets);
        let round = (word >> (NUMBER_BITS + 1)) as u16;
        if round == 0 {
            return Err(Malformed);
        }
        Ok(Self {
            round,
            again: word >> NUMBER_BITS & 1 == 1,
            number: word & ((1 << NUMBER_BITS) - 1),
        })
    }
}

/// Decoded message of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// Done signal: the blast has been sent.
    Done {
        /// Number of the blast.
        round: u16,
        /// Number of packets sent in the blast.
        sent: u64,
    },
    /// Received packets, in the coding of [`Tally::decode`].
    Tally {
        /// Number of the blast that the tally answers.
        round: u16,
        /// Encoded tally.
        octets: &'a [u8],
    },
    /// Request to stop sending datagrams, or to resume.
    Hold {
        /// True to stop.
        on: bool,
    },
    /// Request for a pause (RBUDP+).
    Pause(PauseMessage),
}

impl<'a> Control<'a> {
    /// Decodes a message of the stream.
    pub fn decode(head: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(head);
        let control = match reader.u8()? {
            DONE => Self::Done {
                round: round(&mut reader)?,
                sent: reader.u64()?,
            },
            TALLY => Self::Tally {
                round: round(&mut reader)?,
                octets: reader.rest(),
            },
            HOLD => Self::Hold {
                on: match reader.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(Malformed),
                },
            },
            PAUSE => Self::Pause(PauseMessage::Pause(times(&mut reader)?)),
            WINDOW => Self::Pause(PauseMessage::Window(times(&mut reader)?)),
            _ => return Err(Malformed),
        };
        reader.finish()?;
        Ok(control)
    }
}

/// Returns the done signal of a blast.
pub fn done(stream: u16, round: u16, sent: u64) -> Transmit {
    let mut head = [0; 11];
    head[0] = DONE;
    head[1..3].copy_from_slice(&round.to_be_bytes());
    head[3..].copy_from_slice(&sent.to_be_bytes());
    Transmit {
        via: Via::Stream(stream),
        head: Head::new(&head),
        body: Body::None,
    }
}

/// Returns the tally that answers a done signal.
pub fn tally(stream: u16, round: u16, tally: &Tally) -> Transmit {
    let [high, low] = round.to_be_bytes();
    let mut octets = Vec::new();
    tally.encode(&mut octets);
    Transmit {
        via: Via::Stream(stream),
        head: Head::new(&[TALLY, high, low]),
        body: Body::Octets(octets),
    }
}

/// Returns the receiver's request to stop sending datagrams (`on`), or to resume.
pub fn hold(stream: u16, on: bool) -> Transmit {
    Transmit {
        via: Via::Stream(stream),
        head: Head::new(&[HOLD, u8::from(on)]),
        body: Body::None,
    }
}

/// Returns the receiver's request for a pause. Times are rounded down to microseconds.
pub fn pause_message(stream: u16, pause_message: PauseMessage) -> Transmit {
    let (kind, pause) = match pause_message {
        PauseMessage::Pause(pause) => (PAUSE, pause),
        PauseMessage::Window(pause) => (WINDOW, pause),
    };
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let mut head = [0; 17];
    head[0] = kind;
    head[1..9].copy_from_slice(&micros(pause.after).to_be_bytes());
    head[9..].copy_from_slice(&micros(pause.len).to_be_bytes());
    Transmit {
        via: Via::Stream(stream),
        head: Head::new(&head),
        body: Body::None,
    }
}

/// Length of a datagram's head in octets.
pub const HEAD_LEN: usize = 8;

fn round(reader: &mut Reader<'_>) -> Result<u16, Malformed> {
    match reader.u16()? {
        0 => Err(Malformed),
        round => Ok(round),
    }
}

fn times(reader: &mut Reader<'_>) -> Result<Pause, Malformed> {
    Ok(Pause {
        after: Duration::from_micros(reader.u64()?),
        len: Duration::from_micros(reader.u64()?),
    })
}

/// Number of bits of a packet number.
const NUMBER_BITS: u32 = 47;
const DONE: u8 = 1;
const TALLY: u8 = 2;
const HOLD: u8 = 3;
const PAUSE: u8 = 4;
const WINDOW: u8 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wire_format_is_stable() {
        let packet = Packet {
            round: 0x0102,
            again: false,
            number: 0x0304_0506_0708,
        };
        assert_eq!(packet.encode(), [1, 2, 3, 4, 5, 6, 7, 8]);
        let again = Packet {
            again: true,
            ..packet
        };
        assert_eq!(again.encode(), [1, 2, 0x83, 4, 5, 6, 7, 8]);
        assert_eq!(done(0, 258, 9).octets(), [1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!(tally(0, 3, &Tally::new(0)).octets(), [2, 0, 3, 1]);
        assert_eq!(hold(0, true).octets(), [3, 1]);
        let soon = Pause {
            after: Duration::from_micros(258),
            len: Duration::from_millis(1),
        };
        let expected = [4, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 3, 0xe8];
        assert_eq!(
            pause_message(0, PauseMessage::Pause(soon)).octets(),
            expected
        );
        assert_eq!(
            pause_message(0, PauseMessage::Window(soon)).octets()[..2],
            [5, 0]
        );
    }

    #[test]
    fn invalid_messages_are_malformed() {
        for head in [
            &[][..],
            &[0],
            &[1, 0, 1],
            &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9],
            &[1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 9],
            &[2, 0],
            &[3],
            &[3, 2],
            &[3, 1, 0],
            &[4, 0, 0],
            &[4; 16],
            &[4; 18],
            &[5, 0, 0],
        ] {
            assert_eq!(Control::decode(head), Err(Malformed), "{head:?}");
        }
        assert_eq!(Packet::decode(&[0; 8]), Err(Malformed));
        assert_eq!(Packet::decode(&[1; 7]), Err(Malformed));
        assert_eq!(Packet::decode(&[1; 9]), Err(Malformed));
    }

    proptest! {
        #[test]
        fn messages_round_trip(
            round in 1_u16.., again: bool, number in 0_u64..1 << 47, sent: u64, on: bool,
            after: u64, len: u64,
        ) {
            let packet = Packet { round, again, number };
            prop_assert_eq!(Packet::decode(&packet.encode()), Ok(packet));
            let head = done(7, round, sent).octets();
            prop_assert_eq!(Control::decode(&head), Ok(Control::Done { round, sent }));
            let head = hold(7, on).octets();
            prop_assert_eq!(Control::decode(&head), Ok(Control::Hold { on }));
            let asked = Pause { after: Duration::from_micros(after), len: Duration::from_micros(len) };
            for asked in [PauseMessage::Pause(asked), PauseMessage::Window(asked)] {
                let head = pause_message(7, asked).octets();
                prop_assert_eq!(Control::decode(&head), Ok(Control::Pause(asked)));
            }
            let head = tally(7, round, &Tally::new(5)).octets();
            let decoded = Control::Tally { round, octets: &head[3..] };
            prop_assert_eq!(Control::decode(&head), Ok(decoded));
        }
    }
}
