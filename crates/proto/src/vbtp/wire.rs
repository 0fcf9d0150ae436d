//! Wire format of VBTP.
//!
//! The head of a datagram has eight octets, big-endian: a bit that is set in resends, the number of earlier resends
//! in 33 bits, and the packet number in the lower 30 bits. Only the first transmission of a packet lacks the bit, and
//! no two resends have the same count. So the head can serve as the nonce of the encryption, even if the body has
//! changed in the meantime.
//!
//! A message on the stream begins with its type: 1 question, 2 report, 3 hold, 4 piece.

use alloc::vec::Vec;
use core::ops::Range;

use lighthaul_base::codec::{put_range, put_varint};
use lighthaul_base::{Body, Head, Malformed, Reader, Span, Transmit, Via};

/// Decoded head of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// True for a resend.
    pub again: bool,
    /// Number of resends sent before this datagram, below 2^33. For a resend it is its turn.
    pub turn: u64,
    /// Packet number, below 2^30.
    pub number: u64,
}

impl Packet {
    /// Returns the octets of the head.
    pub const fn encode(self) -> [u8; HEAD_LEN] {
        debug_assert!(self.turn < TURNS_MAX && self.number < 1 << NUMBER_BITS);
        let word = (self.again as u64) << 63 | self.turn << NUMBER_BITS | self.number;
        word.to_be_bytes()
    }

    /// Decodes a head.
    pub fn decode(head: &[u8]) -> Result<Self, Malformed> {
        let octets: [u8; HEAD_LEN] = head.try_into().map_err(|_| Malformed)?;
        let word = u64::from_be_bytes(octets);
        Ok(Self {
            again: word >> 63 == 1,
            turn: word >> NUMBER_BITS & (TURNS_MAX - 1),
            number: word & ((1 << NUMBER_BITS) - 1),
        })
    }
}

/// Decoded message of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// Request for a report of all sent packets that are missing.
    Question(Sent),
    /// Report of received and missing packets.
    Report(Report<'a>),
    /// Request to stop sending datagrams, or to resume.
    Hold {
        /// True to stop.
        on: bool,
    },
    /// Packet of the tail. Its bytes are the body of the message.
    Piece {
        /// Packet number.
        number: u64,
    },
}

/// Progress of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Number of distinct packets sent.
    pub packets: u64,
    /// Number of resends on the circuit.
    pub turns: u64,
}

/// Report of a receiver. Without losses it is the paper's ACK, and with losses its NACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report<'a> {
    /// Number of answered questions. In an answer, `packets` lists all packets missing among those asked about.
    pub answered: u32,
    /// All packets below this number have arrived.
    pub below: u64,
    /// All resends below this turn have arrived or were reported lost.
    pub turns: u64,
    /// Missing packets.
    pub packets: Ranges<'a>,
    /// Turns of lost resends.
    pub lost_turns: Ranges<'a>,
}

/// Encoded ascending ranges that do not touch: their number as a varint, then each in the encoding of
/// [`Reader::range`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ranges<'a> {
    octets: &'a [u8],
    count: usize,
    end: u64,
}

impl<'a> Ranges<'a> {
    /// True if the list contains no range.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the end of the last range, or zero without a range.
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// Returns the ranges.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + use<'a> {
        let mut reader = Reader::new(self.octets);
        let mut done = 0;
        (0..self.count).map_while(move |_| {
            let range = reader.range(done).ok()?;
            done = range.end;
            Some(range)
        })
    }

    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let count = usize::try_from(reader.varint()?).map_err(|_| Malformed)?;
        if count > RANGES_MAX {
            return Err(Malformed);
        }
        let octets = reader.clone().rest();
        let end = (0..count).try_fold(0, |done, _| Ok(reader.range(done)?.end))?;
        Ok(Self { octets, count, end })
    }
}

impl<'a> Control<'a> {
    /// Decodes a message of the stream.
    pub fn decode(head: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(head);
        let control = match reader.u8()? {
            QUESTION => Self::Question(Sent {
                packets: reader.u64()?,
                turns: reader.u64()?,
            }),
            REPORT => Self::Report(report_of(&mut reader)?),
            HOLD => Self::Hold {
                on: match reader.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(Malformed),
                },
            },
            PIECE => Self::Piece {
                number: reader.u64()?,
            },
            _ => return Err(Malformed),
        };
        reader.finish()?;
        Ok(control)
    }
}

/// Returns the sender's question.
pub fn question(stream: u16, sent: Sent) -> Transmit {
    let mut head = [0; 17];
    head[0] = QUESTION;
    head[1..9].copy_from_slice(&sent.packets.to_be_bytes());
    head[9..].copy_from_slice(&sent.turns.to_be_bytes());
    on(stream, &head, Body::None)
}

/// Returns the receiver's report. Of each kind of ranges it takes the first [`RANGES_MAX`].
pub fn report(
    stream: u16,
    [answered, below, turns]: [u64; 3],
    packets: impl Iterator<Item = Range<u64>>,
    lost_turns: impl Iterator<Item = Range<u64>>,
) -> Transmit {
    let mut head = [0; 21];
    head[0] = REPORT;
    head[1..5].copy_from_slice(&(answered as u32).to_be_bytes());
    head[5..13].copy_from_slice(&below.to_be_bytes());
    head[13..].copy_from_slice(&turns.to_be_bytes());
    let mut octets = Vec::new();
    encode(&mut octets, packets);
    encode(&mut octets, lost_turns);
    on(stream, &head, Body::Octets(octets))
}

/// Returns the receiver's request to stop sending datagrams (`hold`), or to resume.
pub fn hold(stream: u16, hold: bool) -> Transmit {
    on(stream, &[HOLD, u8::from(hold)], Body::None)
}

/// Returns a packet of the tail.
pub fn piece(stream: u16, number: u64, span: Span) -> Transmit {
    let mut head = [PIECE; 9];
    head[1..].copy_from_slice(&number.to_be_bytes());
    on(stream, &head, Body::Object(span))
}

/// Length of a datagram's head in octets.
pub const HEAD_LEN: usize = 8;
/// Upper limit of the number of resends in a transfer.
pub const TURNS_MAX: u64 = 1 << 33;
/// Maximum number of ranges of each kind in a report.
pub const RANGES_MAX: usize = 1024;

fn on(stream: u16, head: &[u8], body: Body) -> Transmit {
    Transmit {
        via: Via::Stream(stream),
        head: Head::new(head),
        body,
    }
}

fn report_of<'a>(reader: &mut Reader<'a>) -> Result<Report<'a>, Malformed> {
    Ok(Report {
        answered: reader.u32()?,
        below: reader.u64()?,
        turns: reader.u64()?,
        packets: Ranges::decode(reader)?,
        lost_turns: Ranges::decode(reader)?,
    })
}

fn encode(octets: &mut Vec<u8>, ranges: impl Iterator<Item = Range<u64>>) {
    let mut coded = Vec::new();
    let (mut count, mut done) = (0, 0);
    for range in ranges.take(RANGES_MAX) {
        done = put_range(&mut coded, done, &range);
        count += 1;
    }
    put_varint(octets, count);
    octets.append(&mut coded);
}

/// Number of bits of a packet number.
const NUMBER_BITS: u32 = 30;
const QUESTION: u8 = 1;
const REPORT: u8 = 2;
const HOLD: u8 = 3;
const PIECE: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Generates sorted ranges from gaps and lengths.
    fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
        prop::collection::vec((1_u64..1 << 40, 1_u64..1 << 40), 0..20).prop_map(|parts| {
            let mut done = 0;
            let range = |(gap, len)| {
                let start = done + gap;
                done = start + len;
                start..done
            };
            parts.into_iter().map(range).collect()
        })
    }

    #[test]
    fn wire_format_is_stable() {
        let packet = Packet {
            again: false,
            turn: 1,
            number: 2,
        };
        assert_eq!(packet.encode(), [0, 0, 0, 0, 0x40, 0, 0, 2]);
        let again = Packet {
            again: true,
            ..packet
        };
        assert_eq!(again.encode(), [0x80, 0, 0, 0, 0x40, 0, 0, 2]);
        let sent = Sent {
            packets: 258,
            turns: 3,
        };
        let head = [1, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 3];
        assert_eq!(question(0, sent).octets(), head);
        let words = report(
            0,
            [1, 2, 3],
            [5..6, 8..9].into_iter(),
            core::iter::once(0..7),
        );
        let mut head = [0; 28];
        (head[0], head[4], head[12], head[20]) = (2, 1, 2, 3);
        head[21..].copy_from_slice(&[2, 5, 1, 2, 1, 1, 0]);
        let mut head = head.to_vec();
        head.push(7);
        assert_eq!(words.octets(), head);
        assert_eq!(hold(0, true).octets(), [3, 1]);
        let head = [4, 0, 0, 0, 0, 0, 0, 0, 9];
        assert_eq!(piece(0, 9, Span::new(0, 1)).octets(), head);
    }

    #[test]
    fn invalid_messages_are_malformed() {
        let report = |words: &[u8]| {
            let mut head = [0; 21].to_vec();
            head[0] = 2;
            head.extend(words);
            head
        };
        assert!(Control::decode(&report(&[0, 0])).is_ok());
        for head in [
            [].to_vec(),
            [0].to_vec(),
            [5, 1].to_vec(),
            [1; 16].to_vec(),
            [1; 18].to_vec(),
            [3, 2].to_vec(),
            [3, 1, 0].to_vec(),
            [4; 8].to_vec(),
            report(&[]),
            report(&[0]),
            report(&[0, 0, 0]),
            report(&[1, 5, 0, 0]),
            report(&[2, 5, 1, 0, 1, 0]),
            report(&[0x81, 0x08, 0]),
            report(&[
                2, 5, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1, 0,
            ]),
        ] {
            assert_eq!(Control::decode(&head), Err(Malformed), "{head:?}");
        }
        assert_eq!(Packet::decode(&[1; 7]), Err(Malformed));
        assert_eq!(Packet::decode(&[1; 9]), Err(Malformed));
    }

    #[test]
    fn report_has_no_more_ranges_than_the_decoder_accepts() {
        let many = || (0..).map(|nth| nth * 2 + 1..nth * 2 + 2);
        let head = report(1, [0; 3], many(), many()).octets();
        let Ok(Control::Report(report)) = Control::decode(&head) else {
            panic!("it is a report");
        };
        assert_eq!(report.packets.iter().count(), RANGES_MAX);
        assert!(report.lost_turns.iter().eq(many().take(RANGES_MAX)));
        assert_eq!(report.packets.end(), 2 * RANGES_MAX as u64);
    }

    proptest! {
        #[test]
        fn messages_round_trip(
            again: bool, turn in 0..TURNS_MAX, number in 0_u64..1 << 30, packets: u64, on: bool,
            answered: u32, below: u64, missing in ranges(), lost in ranges(),
        ) {
            let packet = Packet { again, turn, number };
            prop_assert_eq!(Packet::decode(&packet.encode()), Ok(packet));
            let sent = Sent { packets, turns: turn };
            let head = question(7, sent).octets();
            prop_assert_eq!(Control::decode(&head), Ok(Control::Question(sent)));
            let head = hold(7, on).octets();
            prop_assert_eq!(Control::decode(&head), Ok(Control::Hold { on }));
            let head = piece(7, number, Span::new(0, 1)).octets();
            prop_assert_eq!(Control::decode(&head), Ok(Control::Piece { number }));
            let said = [answered.into(), below, turn];
            let head = report(7, said, missing.iter().cloned(), lost.iter().cloned()).octets();
            let Ok(Control::Report(report)) = Control::decode(&head) else {
                panic!("it is a report");
            };
            prop_assert_eq!([report.answered.into(), report.below, report.turns], said);
            prop_assert_eq!(report.packets.iter().collect::<Vec<_>>(), missing);
            prop_assert_eq!(report.lost_turns.iter().collect::<Vec<_>>(), lost);
        }
    }
}
