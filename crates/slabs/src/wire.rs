//! Wire format between two gateways, big-endian and without padding. `VERSION` in `crates/session/src/message.rs`
//! covers it.
//!
//! Both sides have agreed on the packet length (from the longest datagram that passes) and on the window of a session
//! (the smaller of both). A page holds up to 44 packets of one session; all its packets are full except the last.
//! Pages are numbered from 0 in each direction, across all slabs. Packet `n` is in page `n / 44`.
//!
//! # Datagrams
//!
//! | octets | content |
//! |---|---|
//! | 8 | turn (upper 36 bits), and number of the packet in the body (lower 28 bits) |
//!
//! Turns count the datagrams of a direction over all connections of the link, so a resent packet has a new turn. Both
//! fields are truncated. The full turn is the one nearest to the turns that have ended. The full packet number is the
//! first match from the first packet that is not in custody. A connection ends before its turns repeat, so the head
//! can serve as the nonce of the encryption.
//!
//! Datagrams may arrive before their slab is announced.
//!
//! # Messages on the stream
//!
//! The first octet is the type. A session ID is 16 random octets. Numbers have 8 octets unless the table says
//! otherwise. Varints have seven bits per octet, least significant first; the high bit is set in all octets but the
//! last.
//!
//! | type | content |
//! |---|---|
//! | 1 open | session; details: hops left (1 octet), target. Bytes may follow at once, up to the window |
//! | 2 answer | session, 1 (accepted) or 0 (refused); details: the address from which the target was called, or 1 octet of refusal. A refusal ends the session |
//! | 3 reset | session; details: 1 octet of refusal. The session ends at once, and later bytes of it are dropped |
//! | 4 slab | slab number, first page, then records: session, offset of the first byte within this direction of the session, length (4), CRC-32C (4; 0 without bytes), then 0, or 1 and the digest of the whole direction (CRC-64/NVME) at its end |
//! | 5 verdict | slab number, then the records whose CRC does not match, as ascending varints. None: the slab is in custody |
//! | 6 report | first turn that may still arrive, then lost turns as ranges: a varint of the distance from the end of the previous range, and one of the length |
//! | 7 question | number of turns so far. No datagram is about to follow, and the receiver answers with a report |
//! | 8 credit | page number: the receiver can store the pages below it |
//! | 9 window | session, and a limit: the receiver can store the bytes of the session below this offset |
//! | 10 ack | number of messages received on this link over all its connections, `ack` not included |
//!
//! A target is 1 and four octets (IPv4), 4 and sixteen (IPv6), or 3, a length and a name; then 2 octets of port. A
//! session ends when both directions have ended and are in custody. One direction may end long before the other.
//!
//! # Rules for both sides
//!
//! - A sender uses no page without credit, and sends no byte of a session beyond its limit. Slabs are numbered
//!   consecutively, and so are their pages. The bytes of a record follow those of the session's previous record.
//! - The sender keeps a slab until a verdict puts it into the receiver's custody. It resends the pages of rejected
//!   records unchanged. A record without bytes is never rejected.
//! - Losses are reported, not arrivals. Turns stay in order on a channel, so a gap is a loss once reordered datagrams
//!   had time to arrive. A sender that has sent everything asks a question if no report covers all of it.
//! - Messages other than `ack` are kept until the peer has acknowledged them. On a new connection both greetings
//!   begin with the number of messages received. Later messages are sent again in order, and datagrams continue with
//!   new turns.
//! - After a protocol violation the connection ends, and with it all sessions of the link.
//! - A connection ends after five seconds of silence. `ack` is sent at least every second, even if nothing is new.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use lighthaul_base::codec::{put_range, put_varint};
use lighthaul_base::{Malformed, Reader};

/// Identifier of a session on one link, across all its connections: 128 random bits. A session that crosses several
/// links has another one on each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(pub [u8; 16]);

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// Decoded head of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Turn: the number of datagrams sent before this datagram.
    pub turn: u64,
    /// Packet number: 44 for each page, in the order of the pages.
    pub number: u64,
}

impl Packet {
    /// Returns the octets of the head.
    pub const fn encode(self) -> [u8; HEAD_LEN] {
        let number = self.number % NUMBERS;
        (self.turn << NUMBER_BITS | number).to_be_bytes()
    }

    /// Decodes a head. All turns below `turns` have ended, and all packets below `first` are in custody.
    pub fn decode(head: &[u8], turns: u64, first: u64) -> Result<Self, Malformed> {
        let mut reader = Reader::new(head);
        let said = reader.u64()?;
        reader.finish()?;
        let ahead = said.wrapping_sub(first) % NUMBERS;
        // signed distance to `turns`, sign-extended from the bits of a turn
        let distance = (said >> NUMBER_BITS).wrapping_sub(turns) << NUMBER_BITS;
        let distance = distance.cast_signed() >> NUMBER_BITS;
        Ok(Self {
            turn: turns.checked_add_signed(distance).ok_or(Malformed)?,
            number: first.checked_add(ahead).ok_or(Malformed)?,
        })
    }
}

/// Part of one session in a slab (section IV, slab record). Its pages follow those of the previous record, and all of
/// them are full except the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Session of the bytes.
    pub session: SessionId,
    /// Offset of the first byte within this direction of the session.
    pub offset: u64,
    /// Number of bytes.
    pub len: u32,
    /// CRC-32C of the bytes.
    pub crc: u32,
    /// Digest of the whole direction of the session, if it ends in this run.
    pub end: Option<u64>,
}

/// Message of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// A session begins. Its bytes may follow at once.
    Open {
        /// Session ID.
        session: SessionId,
        /// Target, as encoded by the owner.
        details: &'a [u8],
    },
    /// Answer to the opening of a session.
    Answer {
        /// Session ID.
        session: SessionId,
        /// True if the session was accepted.
        accepted: bool,
        /// Details, as encoded by the owner.
        details: &'a [u8],
    },
    /// A session ends at once, and its pending bytes are dropped.
    Reset {
        /// Session ID.
        session: SessionId,
        /// Reason, as encoded by the owner.
        details: &'a [u8],
    },
    /// Announcement of a slab.
    Slab {
        /// Slab number. Slabs are numbered consecutively.
        slab: u64,
        /// Number of the first page.
        page: u64,
        /// Records of the slab.
        records: Vec<Record>,
    },
    /// The receiver has taken custody of a slab, or the CRC of some records does not match.
    Verdict {
        /// Slab number.
        slab: u64,
        /// Indices of the records to be resent. None if the slab is in custody.
        bad: Vec<u32>,
    },
    /// Report on turns. All turns below `below` have arrived or were reported as lost, in this report or earlier.
    Report {
        /// First turn that may still arrive.
        below: u64,
        /// Lost turns.
        lost: Vec<Range<u64>>,
    },
    /// Request for a report. No datagram is about to follow.
    Question {
        /// Number of turns that were used.
        turns: u64,
    },
    /// Credit for pages.
    Credit {
        /// First page without credit.
        pages: u64,
    },
    /// Window of a session.
    Window {
        /// Session ID.
        session: SessionId,
        /// First offset outside the window.
        limit: u64,
    },
    /// Acknowledgment of messages. It does not count itself.
    Ack {
        /// Number of messages received.
        count: u64,
    },
}

impl<'a> Control<'a> {
    /// Returns the octets of the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        match self {
            Self::Open { session, details } => {
                out.push(OPEN);
                out.extend(session.0);
                out.extend(*details);
            }
            Self::Answer {
                session,
                accepted,
                details,
            } => {
                out.push(ANSWER);
                out.extend(session.0);
                out.push((*accepted).into());
                out.extend(*details);
            }
            Self::Reset { session, details } => {
                out.push(RESET);
                out.extend(session.0);
                out.extend(*details);
            }
            Self::Slab {
                slab,
                page,
                records,
            } => put_slab(&mut out, *slab, *page, records),
            Self::Verdict { slab, bad } => {
                out.push(VERDICT);
                out.extend(slab.to_be_bytes());
                for nth in bad {
                    put_varint(&mut out, (*nth).into());
                }
            }
            Self::Report { below, lost } => {
                out.push(REPORT);
                out.extend(below.to_be_bytes());
                lost.iter()
                    .fold(0, |done, range| put_range(&mut out, done, range));
            }
            Self::Question { turns } => put_number(&mut out, QUESTION, *turns),
            Self::Credit { pages } => put_number(&mut out, CREDIT, *pages),
            Self::Window { session, limit } => {
                out.push(WINDOW);
                out.extend(session.0);
                out.extend(limit.to_be_bytes());
            }
            Self::Ack { count } => put_number(&mut out, ACK, *count),
        }
        out
    }

    /// Decodes a message.
    pub fn decode(octets: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        let message = match reader.u8()? {
            OPEN => Self::Open {
                session: session(&mut reader)?,
                details: reader.rest(),
            },
            ANSWER => Self::Answer {
                session: session(&mut reader)?,
                accepted: flag(&mut reader)?,
                details: reader.rest(),
            },
            RESET => Self::Reset {
                session: session(&mut reader)?,
                details: reader.rest(),
            },
            SLAB => slab(&mut reader)?,
            VERDICT => Self::Verdict {
                slab: reader.u64()?,
                bad: verdict(&mut reader)?,
            },
            REPORT => Self::Report {
                below: reader.u64()?,
                lost: ranges(&mut reader)?,
            },
            QUESTION => Self::Question {
                turns: reader.u64()?,
            },
            CREDIT => Self::Credit {
                pages: reader.u64()?,
            },
            WINDOW => Self::Window {
                session: session(&mut reader)?,
                limit: reader.u64()?,
            },
            ACK => Self::Ack {
                count: reader.u64()?,
            },
            _ => return Err(Malformed),
        };
        reader.finish()?;
        Ok(message)
    }
}

fn put_number(out: &mut Vec<u8>, kind: u8, number: u64) {
    out.push(kind);
    out.extend(number.to_be_bytes());
}

fn put_slab(out: &mut Vec<u8>, slab: u64, page: u64, records: &[Record]) {
    out.push(SLAB);
    out.extend(slab.to_be_bytes());
    out.extend(page.to_be_bytes());
    for record in records {
        out.extend(record.session.0);
        out.extend(record.offset.to_be_bytes());
        out.extend(record.len.to_be_bytes());
        out.extend(record.crc.to_be_bytes());
        out.push(record.end.is_some().into());
        out.extend(record.end.iter().flat_map(|digest| digest.to_be_bytes()));
    }
}

fn slab<'a>(reader: &mut Reader<'_>) -> Result<Control<'a>, Malformed> {
    let (slab, page) = (reader.u64()?, reader.u64()?);
    let mut records = Vec::new();
    while !reader.is_empty() {
        if records.len() == RECORDS_MAX {
            return Err(Malformed);
        }
        records.push(record(reader)?);
    }
    if records.is_empty() {
        return Err(Malformed);
    }
    Ok(Control::Slab {
        slab,
        page,
        records,
    })
}

fn record(reader: &mut Reader<'_>) -> Result<Record, Malformed> {
    let session = session(reader)?;
    let (offset, len, crc) = (reader.u64()?, reader.u32()?, reader.u32()?);
    let end = flag(reader)?.then(|| reader.u64()).transpose()?;
    // an empty record is valid only as the end of a session, and with the CRC of no bytes
    let is_whole = len > 0 || end.is_some() && crc == 0;
    if !is_whole || offset.checked_add(len.into()).is_none() {
        return Err(Malformed);
    }
    Ok(Record {
        session,
        offset,
        len,
        crc,
        end,
    })
}

fn session(reader: &mut Reader<'_>) -> Result<SessionId, Malformed> {
    reader.array().map(SessionId)
}

fn flag(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed),
    }
}

fn verdict(reader: &mut Reader<'_>) -> Result<Vec<u32>, Malformed> {
    let mut bad = Vec::new();
    while !reader.is_empty() {
        let nth = u32::try_from(reader.varint()?).map_err(|_| Malformed)?;
        if bad.len() == RECORDS_MAX || bad.last().is_some_and(|last| *last >= nth) {
            return Err(Malformed);
        }
        bad.push(nth);
    }
    Ok(bad)
}

fn ranges(reader: &mut Reader<'_>) -> Result<Vec<Range<u64>>, Malformed> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    while !reader.is_empty() {
        if ranges.len() == RANGES_MAX {
            return Err(Malformed);
        }
        let done = ranges.last().map_or(0, |range| range.end);
        ranges.push(reader.range(done)?);
    }
    Ok(ranges)
}

/// Length of a datagram's head in octets.
pub const HEAD_LEN: usize = 8;
/// Number of bits of the packet number in a head.
const NUMBER_BITS: u32 = 28;
/// Number of packet numbers that a head can tell apart.
pub const NUMBERS: u64 = 1 << NUMBER_BITS;
/// Number of turns on one connection.
pub const TURNS_EACH: u64 = 1 << (u64::BITS - NUMBER_BITS);
/// Maximum number of records in a slab.
pub const RECORDS_MAX: usize = 1 << 12;
/// Maximum number of ranges in a report.
pub const RANGES_MAX: usize = 1 << 10;

const OPEN: u8 = 1;
const ANSWER: u8 = 2;
const RESET: u8 = 3;
const SLAB: u8 = 4;
const VERDICT: u8 = 5;
const REPORT: u8 = 6;
const QUESTION: u8 = 7;
const CREDIT: u8 = 8;
const WINDOW: u8 = 9;
const ACK: u8 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    const SESSION: SessionId = SessionId(*b"abcdefghijklmnop");

    fn messages() -> Vec<Control<'static>> {
        let record = |end| Record {
            session: SESSION,
            offset: 1 << 40,
            len: 70_000,
            crc: 0xdead_beef,
            end,
        };
        vec![
            Control::Open {
                session: SESSION,
                details: b"to",
            },
            Control::Answer {
                session: SESSION,
                accepted: true,
                details: b"",
            },
            Control::Reset {
                session: SESSION,
                details: b"why",
            },
            Control::Slab {
                slab: 7,
                page: 1 << 50,
                records: vec![record(None), record(Some(9))],
            },
            Control::Verdict {
                slab: 7,
                bad: vec![],
            },
            Control::Verdict {
                slab: 7,
                bad: vec![0, 300],
            },
            Control::Report {
                below: 99,
                lost: vec![0..1, 5..90],
            },
            Control::Question { turns: 3 },
            Control::Credit { pages: 4 },
            Control::Window {
                session: SESSION,
                limit: 5,
            },
            Control::Ack { count: 6 },
        ]
    }

    #[test]
    fn messages_round_trip() {
        for message in messages() {
            assert_eq!(Control::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn truncated_numbers_in_heads_are_recovered() {
        let (turns, first) = (7 << 50, 5 << 40);
        for (turn, number) in [
            (turns, first),
            (turns - (TURNS_EACH >> 1), first + 1),
            (turns + (TURNS_EACH >> 1) - 1, first + NUMBERS - 1),
        ] {
            let packet = Packet { turn, number };
            assert_eq!(Packet::decode(&packet.encode(), turns, first), Ok(packet));
        }
        let packet = Packet { turn: 3, number: 0 };
        assert_eq!(Packet::decode(&packet.encode(), 5, 0), Ok(packet));
        // rejects numbers before the first one, and beyond 64 bits
        let before = Packet {
            turn: u64::MAX,
            number: 0,
        };
        assert_eq!(Packet::decode(&before.encode(), 0, 0), Err(Malformed));
        let beyond = Packet { turn: 0, number: 0 };
        assert_eq!(
            Packet::decode(&beyond.encode(), 0, u64::MAX),
            Err(Malformed)
        );
        for octets in [7, 9] {
            assert_eq!(Packet::decode(&[0; 9][..octets], 0, 0), Err(Malformed));
        }
    }

    #[test]
    fn invalid_messages_are_malformed() {
        let nothing = Record {
            session: SESSION,
            offset: 0,
            len: 0,
            crc: 0,
            end: None,
        };
        let beyond = Record {
            offset: u64::MAX,
            len: 1,
            ..nothing
        };
        let mismatched = Record {
            crc: 1,
            end: Some(0),
            ..nothing
        };
        for records in [vec![], vec![nothing], vec![beyond], vec![mismatched]] {
            let message = Control::Slab {
                slab: 0,
                page: 0,
                records,
            };
            assert_eq!(Control::decode(&message.encode()), Err(Malformed));
        }
        let twice = Control::Verdict {
            slab: 0,
            bad: vec![1, 1],
        };
        assert_eq!(Control::decode(&twice.encode()), Err(Malformed));
        assert_eq!(Control::decode(&[]), Err(Malformed));
        assert_eq!(Control::decode(&[11]), Err(Malformed));
    }

    proptest! {
        #[test]
        fn arbitrary_octets_decode_without_panic(octets in prop::collection::vec(any::<u8>(), 0..200), kind in 0_u8..12) {
            let mut octets = octets;
            if let Some(first) = octets.first_mut() {
                *first = kind;
            }
            if let Ok(message) = Control::decode(&octets) {
                let again = message.encode();
                prop_assert_eq!(Control::decode(&again), Ok(message));
            }
        }
    }
}
