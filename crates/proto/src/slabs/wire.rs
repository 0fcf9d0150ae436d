//! What crosses between two gateways, big-endian and without padding; version 2, which the greeting names before.
//!
//! Both sides have agreed on the bytes of a packet (from the longest datagram that passes) and on the window of a session
//! (the smaller of both). A page is up to 44 packets of one session's bytes; all its packets are full but the last. Pages count
//! up from 0 in each direction and over all slabs; packet `n` is in page `n / 44`.
//!
//! # Datagrams
//!
//! | octets | what |
//! |---|---|
//! | 8 | the turn, in the upper 36 bits, and the number of the packet that follows, in the lower 28 |
//!
//! Turns count the datagrams of a direction, over all connections of the link, so that a packet which is sent again has a new one.
//! Of both numbers only what fits is said: the turn is the one nearest to those that are over, and the packet the first from those
//! that are not kept on. A connection ends before its turns repeat themselves, so that the whole head is the nonce of its seal.
//!
//! Datagrams may come before the slab is announced that they are of.
//!
//! # Messages on the stream
//!
//! The first octet is the kind. A session is 16 octets of chance; numbers have 8 octets but where it says otherwise, varints
//! seven bits an octet, the lowest first, with the high bit in all but the last.
//!
//! | kind | what follows |
//! |---|---|
//! | 1 open | session; words: hops left (1 octet), target. Bytes may follow at once, as far as the window goes |
//! | 2 answer | session, 1 or 0; words: the address that the target was called from, or 1 octet of refusal. After 0 it is over |
//! | 3 reset | session; words: 1 octet of refusal. It is over at once; what comes of it later is dropped |
//! | 4 slab | its number, its first page, then records: session, offset of the first byte in what the session says in this direction, length (4), CRC-32C (4), 0, or 1 and the digest of all (CRC-64/NVME) if nothing follows |
//! | 5 verdict | the slab's number, then the records that are not what their CRC says, as varints that grow. None: it is kept |
//! | 6 report | the first turn that may still come, then lost turns, as ranges: a varint from the end of the range before, and one for how many |
//! | 7 question | how many turns there were: none is about to follow, and who hears it reports |
//! | 8 credit | pages below this number have a place |
//! | 9 window | session, and a limit: its bytes below this offset have a place |
//! | 10 heard | how many messages but of this kind were heard on this link, on all its connections |
//!
//! A target is 1 and four octets, 4 and sixteen, or 3, a length and a name; then 2 octets of port. A session ends when both
//! directions have ended and are kept; half of it may end long before.
//!
//! # What both sides keep to
//!
//! - A sender uses no page that it has no credit for, and says no byte of a session behind its limit. Slabs count up by one, and their
//!   pages follow each other. A record's bytes follow those of the record of that session before.
//! - It keeps a slab until the verdict that says that it is kept: then the other side answers for it. Of one with bad records it
//!   sends the pages of these again, as they were.
//! - What is lost is reported, not what came: turns are in order on a channel, so a gap is a loss once datagrams had time to overtake.
//!   Who has sent all, and has heard no report that covers it, asks.
//! - Messages but `heard` are kept until the other side has heard them. On a new connection both say first, in their greetings, how many
//!   they have heard; what is beyond is told again, in order, and datagrams go on with turns that were never used.
//! - Who says what cannot be, is not heard any more: the connection ends, and with it all sessions of the link.
//! - Silence for five seconds ends a connection; `heard` is said every second at least, be it nothing new.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use lighthaul_base::codec::{put_range, put_varint};
use lighthaul_base::{Malformed, Reader};

/// What a session is called from end to end, however many gateways and connections it crosses: 128 bits of chance.
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

/// The decoded head of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// How many datagrams left before it.
    pub turn: u64,
    /// Its number: 44 for each page, in the order of the pages.
    pub number: u64,
}

impl Packet {
    /// The head's octets.
    pub const fn encode(self) -> [u8; HEAD_LEN] {
        let number = self.number % NUMBERS;
        (self.turn << NUMBER_BITS | number).to_be_bytes()
    }

    /// Reads a head, where all turns below `turns` are over, and all packets below `first`.
    pub fn decode(head: &[u8], turns: u64, first: u64) -> Result<Self, Malformed> {
        let mut reader = Reader::new(head);
        let said = reader.u64()?;
        reader.finish()?;
        let ahead = said.wrapping_sub(first) % NUMBERS;
        // how far it is ahead or, as a turn that wraps around, behind
        let distance = (said >> NUMBER_BITS).wrapping_sub(turns) << NUMBER_BITS;
        let distance = distance.cast_signed() >> NUMBER_BITS;
        Ok(Self {
            turn: turns.checked_add_signed(distance).ok_or(Malformed)?,
            number: first.checked_add(ahead).ok_or(Malformed)?,
        })
    }
}

/// A part of one session in a slab (section IV's slab record): its pages follow those of the record before, all of them
/// full but the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Whose bytes.
    pub session: SessionId,
    /// Where they are in what the session says in this direction.
    pub offset: u64,
    /// How many.
    pub len: u32,
    /// Their CRC-32C.
    pub crc: u32,
    /// With nothing behind them: the digest of all that the session has said in this direction.
    pub end: Option<u64>,
}

/// A message of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Letter<'a> {
    /// A session begins; its bytes may follow at once.
    Open {
        /// Its name.
        session: SessionId,
        /// Where to, in its owner's words.
        words: &'a [u8],
    },
    /// What came of it.
    Answer {
        /// Its name.
        session: SessionId,
        /// Whether it goes on.
        accepted: bool,
        /// How that came, in its owner's words.
        words: &'a [u8],
    },
    /// A session is over at once, whatever was still to come.
    Reset {
        /// Its name.
        session: SessionId,
        /// The reason, in its owner's words.
        words: &'a [u8],
    },
    /// What a slab is made of.
    Slab {
        /// Its number; they count up.
        slab: u64,
        /// The number of its first page.
        page: u64,
        /// Its parts.
        records: Vec<Record>,
    },
    /// All of a slab came and is in our custody, or these of its records are not what their CRC says.
    Verdict {
        /// Which slab.
        slab: u64,
        /// The records to be sent again; none if it is kept.
        bad: Vec<u32>,
    },
    /// What came of the datagrams: all turns below came, or are, or were, reported as lost.
    Report {
        /// The first turn that may still come.
        below: u64,
        /// Turns that were lost.
        lost: Vec<Range<u64>>,
    },
    /// So many turns there were, and none is about to follow.
    Question {
        /// How many.
        turns: u64,
    },
    /// Pages below this number have a place.
    Credit {
        /// The first that has none.
        pages: u64,
    },
    /// A session's bytes below this offset have a place.
    Window {
        /// Its name.
        session: SessionId,
        /// The first that has none.
        limit: u64,
    },
    /// So many messages were heard; this one is not counted.
    Heard {
        /// How many.
        count: u64,
    },
}

impl<'a> Letter<'a> {
    /// Its octets.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        match self {
            Self::Open { session, words } => {
                out.push(OPEN);
                out.extend(session.0);
                out.extend(*words);
            }
            Self::Answer {
                session,
                accepted,
                words,
            } => {
                out.push(ANSWER);
                out.extend(session.0);
                out.push((*accepted).into());
                out.extend(*words);
            }
            Self::Reset { session, words } => {
                out.push(RESET);
                out.extend(session.0);
                out.extend(*words);
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
            Self::Heard { count } => put_number(&mut out, HEARD, *count),
        }
        out
    }

    /// Reads a message.
    pub fn decode(octets: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        let letter = match reader.u8()? {
            OPEN => Self::Open {
                session: session(&mut reader)?,
                words: reader.rest(),
            },
            ANSWER => Self::Answer {
                session: session(&mut reader)?,
                accepted: flag(&mut reader)?,
                words: reader.rest(),
            },
            RESET => Self::Reset {
                session: session(&mut reader)?,
                words: reader.rest(),
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
            HEARD => Self::Heard {
                count: reader.u64()?,
            },
            _ => return Err(Malformed),
        };
        reader.finish()?;
        Ok(letter)
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

fn slab<'a>(reader: &mut Reader<'_>) -> Result<Letter<'a>, Malformed> {
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
    Ok(Letter::Slab {
        slab,
        page,
        records,
    })
}

fn record(reader: &mut Reader<'_>) -> Result<Record, Malformed> {
    let session = session(reader)?;
    let (offset, len, crc) = (reader.u64()?, reader.u32()?, reader.u32()?);
    let end = flag(reader)?.then(|| reader.u64()).transpose()?;
    // nothing is said only where it is the end
    let says_something = len > 0 || end.is_some();
    if !says_something || offset.checked_add(len.into()).is_none() {
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

/// Octets of a datagram's head.
pub const HEAD_LEN: usize = 8;
/// Bits of it that say which packet follows.
const NUMBER_BITS: u32 = 28;
/// Packets that a head tells apart.
pub const NUMBERS: u64 = 1 << NUMBER_BITS;
/// Turns that a connection has.
pub const TURNS_EACH: u64 = 1 << (u64::BITS - NUMBER_BITS);
/// The most records of a slab.
pub const RECORDS_MAX: usize = 1 << 12;
/// The most ranges of a report.
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
const HEARD: u8 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    const SESSION: SessionId = SessionId(*b"abcdefghijklmnop");

    fn letters() -> Vec<Letter<'static>> {
        let record = |end| Record {
            session: SESSION,
            offset: 1 << 40,
            len: 70_000,
            crc: 0xdead_beef,
            end,
        };
        vec![
            Letter::Open {
                session: SESSION,
                words: b"to",
            },
            Letter::Answer {
                session: SESSION,
                accepted: true,
                words: b"",
            },
            Letter::Reset {
                session: SESSION,
                words: b"why",
            },
            Letter::Slab {
                slab: 7,
                page: 1 << 50,
                records: vec![record(None), record(Some(9))],
            },
            Letter::Verdict {
                slab: 7,
                bad: vec![],
            },
            Letter::Verdict {
                slab: 7,
                bad: vec![0, 300],
            },
            Letter::Report {
                below: 99,
                lost: vec![0..1, 5..90],
            },
            Letter::Question { turns: 3 },
            Letter::Credit { pages: 4 },
            Letter::Window {
                session: SESSION,
                limit: 5,
            },
            Letter::Heard { count: 6 },
        ]
    }

    #[test]
    fn letters_survive_the_wire() {
        for letter in letters() {
            assert_eq!(Letter::decode(&letter.encode()), Ok(letter));
        }
    }

    #[test]
    fn heads_say_enough_of_both_numbers() {
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
        // none is before the first, or behind what can be counted
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
    fn what_nobody_says_is_refused() {
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
        for records in [vec![], vec![nothing], vec![beyond]] {
            let letter = Letter::Slab {
                slab: 0,
                page: 0,
                records,
            };
            assert_eq!(Letter::decode(&letter.encode()), Err(Malformed));
        }
        let twice = Letter::Verdict {
            slab: 0,
            bad: vec![1, 1],
        };
        assert_eq!(Letter::decode(&twice.encode()), Err(Malformed));
        assert_eq!(Letter::decode(&[]), Err(Malformed));
        assert_eq!(Letter::decode(&[11]), Err(Malformed));
    }

    proptest! {
        #[test]
        fn any_octets_are_read_or_refused(octets in prop::collection::vec(any::<u8>(), 0..200), kind in 0_u8..12) {
            let mut octets = octets;
            if let Some(first) = octets.first_mut() {
                *first = kind;
            }
            if let Ok(letter) = Letter::decode(&octets) {
                let again = letter.encode();
                prop_assert_eq!(Letter::decode(&again), Ok(letter));
            }
        }
    }
}
