//! Records that a domain stores before it sends messages that depend on them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::trc::Trc;
use lighthaul_base::{Instant, Malformed, Reader};

use crate::fields::{
    put_hops, put_key, put_refusal, put_segments, put_trace, put_vector, read_count, read_hops,
    read_key, read_refusal, read_segments, read_trace, read_vector,
};
use crate::key::{DomainId, HOPS_MAX, Hop, Key, Segment};
use crate::refusal::Refusal;

/// Record of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// State of a reservation, which replaces the previous one.
    Put(StoredReservation),
    /// The reservation is forgotten.
    Forget(Key),
}

/// Stored form of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReservation {
    /// Number of the reservation.
    pub key: Key,
    /// Neighbor that requested the reservation; `None` in the source domain.
    pub upstream: Option<DomainId>,
    /// Parts of the path inside this domain.
    pub segments: Vec<Segment>,
    /// Neighbors that were asked for the next part of the path.
    pub children: Vec<Child>,
    /// Domains that the hold has crossed; the last is this domain.
    pub trace: Vec<DomainId>,
    /// Rates over time.
    pub vector: Trc,
    /// Time in which an increase carries nothing. Only the source domain knows it; zero elsewhere.
    pub guard: Duration,
    /// End of the hold.
    pub hold_till: Instant,
    /// Time by which all domains must have committed.
    pub decide_till: Instant,
    /// Stage.
    pub stage: StoredStage,
    /// Leg of a protected path that has failed and is released.
    pub lost: Option<LostLeg>,
}

/// Leg of a protected path that has failed after the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LostLeg {
    /// Index of the reservation's segment.
    pub leg: u8,
    /// Reason for which the leg was lost.
    pub refusal: Refusal,
}

/// Neighbor that was asked for the next part of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Child {
    /// Number of the neighbor domain.
    pub neighbor: DomainId,
    /// Leg of the reservation at the neighbor.
    pub leg: u8,
    /// Path from the neighbor on.
    pub hops: Vec<Hop>,
}

/// Stage of a stored reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoredStage {
    /// Held until `hold_till`. The children may hold or have committed.
    Holding,
    /// Committed, together with all children.
    Committed,
    /// Given up. The children may still hold or have committed.
    Closing,
}

impl Record {
    /// Applies the record to the stored reservations.
    pub fn apply(self, stored: &mut BTreeMap<Key, StoredReservation>) {
        match self {
            Self::Put(reservation) => {
                stored.insert(reservation.key, reservation);
            }
            Self::Forget(key) => {
                stored.remove(&key);
            }
        }
    }

    /// Returns the octets of the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::from([VERSION]);
        match self {
            Self::Put(reservation) => {
                out.push(1);
                reservation.put(&mut out);
            }
            Self::Forget(key) => {
                out.push(2);
                put_key(&mut out, *key);
            }
        }
        out
    }

    /// Decodes a record.
    pub fn decode(octets: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        let version = reader.u8()?;
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(Malformed);
        }
        let record = match reader.u8()? {
            1 => Self::Put(StoredReservation::read(&mut reader, version)?),
            2 => Self::Forget(read_key(&mut reader)?),
            _ => return Err(Malformed),
        };
        reader.finish()?;
        Ok(record)
    }
}

impl StoredReservation {
    /// Returns the children, each with its leg: the index of the segment that leads to it.
    pub fn legs(&self) -> impl Iterator<Item = (usize, &Child)> {
        let mut leg = 0;
        self.children.iter().map(move |child| {
            let ingress = child.hops.first().map(|hop| hop.segment.ingress);
            let next = self.segments.get(leg + 1).map(|segment| segment.egress);
            if next.is_some() && next == ingress {
                leg += 1;
            }
            (leg, child)
        })
    }

    /// Returns the reserved segments with their indexes: all except the segment of a lost leg.
    pub fn kept(&self) -> impl Iterator<Item = (u8, Segment)> {
        let all = (0..).zip(self.segments.iter().copied());
        all.filter(|(leg, _)| !self.has_lost((*leg).into()))
    }

    /// Returns true if a leg has failed.
    pub fn has_lost(&self, leg: usize) -> bool {
        self.lost.is_some_and(|lost| usize::from(lost.leg) == leg)
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_key(out, self.key);
        out.push(match self.stage {
            StoredStage::Holding => 1,
            StoredStage::Committed => 2,
            StoredStage::Closing => 3,
        });
        put_trace(out, &self.upstream.into_iter().collect::<Vec<_>>());
        put_segments(out, &self.segments);
        out.push(self.children.len() as u8);
        for child in &self.children {
            out.extend(child.neighbor.0.to_be_bytes());
            out.push(child.leg);
            put_hops(out, &child.hops);
        }
        put_trace(out, &self.trace);
        put_vector(out, &self.vector);
        out.extend(self.hold_till.as_nanos().to_be_bytes());
        out.extend(self.decide_till.as_nanos().to_be_bytes());
        out.extend((self.guard.as_nanos() as u64).to_be_bytes());
        out.push(u8::from(self.lost.is_some()));
        if let Some(lost) = self.lost {
            out.push(lost.leg);
            put_refusal(out, lost.refusal);
        }
    }

    fn read(reader: &mut Reader<'_>, version: u8) -> Result<Self, Malformed> {
        let key = read_key(reader)?;
        let stage = match reader.u8()? {
            1 => StoredStage::Holding,
            2 => StoredStage::Committed,
            3 => StoredStage::Closing,
            _ => return Err(Malformed),
        };
        let upstream = match read_trace(reader)?.as_slice() {
            [] => None,
            [upstream] => Some(*upstream),
            _ => return Err(Malformed),
        };
        let segments = read_segments(reader)?;
        let count = read_count(reader, HOPS_MAX)?;
        let children = (0..count).map(|_| {
            Ok(Child {
                neighbor: DomainId(reader.u32()?),
                leg: reader.u8()?,
                hops: read_hops(reader)?,
            })
        });
        let children = children.collect::<Result<_, Malformed>>()?;
        Ok(Self {
            key,
            upstream,
            segments,
            children,
            trace: read_trace(reader)?,
            vector: read_vector(reader)?,
            hold_till: Instant::from_nanos(reader.u64()?),
            decide_till: Instant::from_nanos(reader.u64()?),
            guard: if version < 2 {
                Duration::ZERO
            } else {
                Duration::from_nanos(reader.u64()?)
            },
            lost: if version < 3 {
                None
            } else {
                LostLeg::read(reader)?
            },
            stage,
        })
    }
}

impl LostLeg {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        match reader.u8()? {
            0 => Ok(None),
            1 => Ok(Some(Self {
                leg: reader.u8()?,
                refusal: read_refusal(reader)?,
            })),
            _ => Err(Malformed),
        }
    }
}

/// Version of the format.
const VERSION: u8 = 3;
/// First version that is read. Its reservations have no guard time, and until version 3 no lost leg.
const VERSION_MIN: u8 = 1;
