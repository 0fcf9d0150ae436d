//! Records that a domain stores before it sends what depends on them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::trc::Trc;
use lighthaul_base::{Instant, Malformed, Reader};

use crate::fields::{
    put_hops, put_key, put_segments, put_trace, put_vector, read_count, read_hops, read_key,
    read_segments, read_trace, read_vector,
};
use crate::key::{DomainId, HOPS_MAX, Hop, Key, Segment};

/// Record of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// State of a reservation, which replaces the previous one.
    Put(StoredReservation),
    /// The reservation is forgotten.
    Forget(Key),
}

/// Reservation as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReservation {
    /// Number of the reservation.
    pub key: Key,
    /// Neighbor that asked for it; `None` in the source domain.
    pub upstream: Option<DomainId>,
    /// Parts of the path inside this domain.
    pub segments: Vec<Segment>,
    /// Neighbors that were asked for the rest of the path.
    pub children: Vec<Child>,
    /// Domains that the hold has crossed, ending with this one.
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
}

/// Neighbor that was asked for the rest of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Child {
    /// Neighbor.
    pub neighbor: DomainId,
    /// Leg of the reservation there.
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
            guard: if version == VERSION_MIN {
                Duration::ZERO
            } else {
                Duration::from_nanos(reader.u64()?)
            },
            stage,
        })
    }
}

/// Version of the format.
const VERSION: u8 = 2;
/// First version that is read. Its reservations have no guard time.
const VERSION_MIN: u8 = 1;
