//! Octets of messages: version, type, time of sending, and the fields of the type.
//!
//! Varints are accepted in any length, so decoding and encoding again may shorten a message.

use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::codec::put_varint;
use lighthaul_base::{Instant, Malformed, Rate, Reader};

use crate::fields::{
    put_hops, put_key, put_query, put_refusal, put_steps, put_trace, put_vector, read_hops,
    read_key, read_query, read_refusal, read_steps, read_trace, read_vector,
};
use crate::message::{Body, Message};
use crate::offer::{Losses, Offer};

impl Message {
    /// Returns the octets of the message, at most [`LEN_MAX`].
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::from([VERSION, self.body.kind()]);
        put_time(&mut out, self.sent);
        self.body.put(&mut out);
        out
    }

    /// Decodes a message.
    pub fn decode(octets: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        if octets.len() > LEN_MAX || reader.u8()? != VERSION {
            return Err(Malformed);
        }
        let kind = reader.u8()?;
        let sent = read_time(&mut reader)?;
        let body = Body::read(kind, &mut reader)?;
        reader.finish()?;
        Ok(Self { sent, body })
    }
}

impl Body {
    const fn kind(&self) -> u8 {
        match self {
            Self::Query { .. } => 1,
            Self::Offer { .. } => 2,
            Self::NoOffer { .. } => 3,
            Self::Hold { .. } => 4,
            Self::Held { .. } => 5,
            Self::Refused { .. } => 6,
            Self::Commit { .. } => 7,
            Self::Committed { .. } => 8,
            Self::Abort { .. } => 9,
            Self::Aborted { .. } => 10,
            Self::Release { .. } => 11,
            Self::Released { .. } => 12,
            Self::Ask { .. } => 13,
            Self::RangeDone { .. } => 14,
            Self::Notify { .. } => 15,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Query {
                query,
                hops,
                trace,
                from,
                till,
                is_protected,
            } => {
                put_query(out, *query);
                put_hops(out, hops);
                put_trace(out, trace);
                put_time(out, *from);
                put_time(out, *till);
                out.push(u8::from(*is_protected));
            }
            Self::Offer { query, offer } => {
                put_query(out, *query);
                out.extend(offer.unit().as_bps().to_be_bytes());
                let losses = offer.losses();
                put_varint(out, losses.guard.as_nanos() as u64);
                out.extend(losses.packet_bytes.to_be_bytes());
                put_steps(out, offer.steps());
            }
            Self::NoOffer { query, refusal } => {
                put_query(out, *query);
                put_refusal(out, *refusal);
            }
            Self::Hold {
                key,
                hops,
                trace,
                vector,
                hold_till,
                decide_till,
            } => {
                put_key(out, *key);
                put_hops(out, hops);
                put_trace(out, trace);
                put_vector(out, vector);
                put_time(out, *hold_till);
                put_time(out, *decide_till);
            }
            Self::Refused { key, refusal }
            | Self::Aborted { key, refusal }
            | Self::Notify { key, refusal } => {
                put_key(out, *key);
                put_refusal(out, *refusal);
            }
            Self::Held { key }
            | Self::Commit { key }
            | Self::Committed { key }
            | Self::Abort { key }
            | Self::Release { key }
            | Self::Released { key }
            | Self::Ask { key } => put_key(out, *key),
            Self::RangeDone { key, range } => {
                put_key(out, *key);
                out.extend(range.to_be_bytes());
            }
        }
    }

    fn read(kind: u8, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        if kind <= 3 {
            return Self::read_query(kind, reader);
        }
        let key = read_key(reader)?;
        Ok(match kind {
            4 => Self::Hold {
                key,
                hops: read_hops(reader)?,
                trace: read_trace(reader)?,
                vector: read_vector(reader)?,
                hold_till: read_time(reader)?,
                decide_till: read_time(reader)?,
            },
            5 => Self::Held { key },
            6 => Self::Refused {
                key,
                refusal: read_refusal(reader)?,
            },
            7 => Self::Commit { key },
            8 => Self::Committed { key },
            9 => Self::Abort { key },
            10 => Self::Aborted {
                key,
                refusal: read_refusal(reader)?,
            },
            11 => Self::Release { key },
            12 => Self::Released { key },
            13 => Self::Ask { key },
            14 => Self::RangeDone {
                key,
                range: reader.u16()?,
            },
            15 => Self::Notify {
                key,
                refusal: read_refusal(reader)?,
            },
            _ => return Err(Malformed),
        })
    }

    fn read_query(kind: u8, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let query = read_query(reader)?;
        Ok(match kind {
            1 => Self::Query {
                query,
                hops: read_hops(reader)?,
                trace: read_trace(reader)?,
                from: read_time(reader)?,
                till: read_time(reader)?,
                is_protected: match reader.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(Malformed),
                },
            },
            2 => {
                let unit = Rate::from_bps(reader.u64()?).ok_or(Malformed)?;
                let losses = Losses {
                    guard: Duration::from_nanos(reader.varint()?),
                    packet_bytes: reader.u16()?,
                };
                let offer = Offer::new(unit, read_steps(reader)?);
                let offer = offer.and_then(|offer| offer.with_losses(losses));
                Self::Offer {
                    query,
                    offer: offer.ok_or(Malformed)?,
                }
            }
            3 => Self::NoOffer {
                query,
                refusal: read_refusal(reader)?,
            },
            _ => return Err(Malformed),
        })
    }
}

fn put_time(out: &mut Vec<u8>, at: Instant) {
    out.extend(at.as_nanos().to_be_bytes());
}

fn read_time(reader: &mut Reader<'_>) -> Result<Instant, Malformed> {
    reader.u64().map(Instant::from_nanos)
}

/// Version of the wire format.
pub const VERSION: u8 = 3;
/// Maximum length of a message in octets.
pub const LEN_MAX: usize = 1 << 15;
