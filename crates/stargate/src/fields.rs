//! Parts of messages and records, as octets: big-endian numbers, varints, and lists with a bounded length.

use alloc::vec::Vec;

use lighthaul_base::codec::put_varint;
use lighthaul_base::trc::{Step, Trc};
use lighthaul_base::{Instant, Malformed, Rate, Reader};

use crate::key::{CorrelationId, DomainId, HOPS_MAX, Hop, Key, PortId, QueryId, Segment};
use crate::offer::RANGES_MAX;
use crate::refusal::Refusal;

pub(crate) fn put_key(out: &mut Vec<u8>, key: Key) {
    out.extend(key.source.0.to_be_bytes());
    out.extend(key.id.0.to_be_bytes());
    out.extend([key.attempt, key.leg]);
}

pub(crate) fn read_key(reader: &mut Reader<'_>) -> Result<Key, Malformed> {
    Ok(Key {
        source: DomainId(reader.u32()?),
        id: CorrelationId(reader.array().map(u128::from_be_bytes)?),
        attempt: reader.u8()?,
        leg: reader.u8()?,
    })
}

pub(crate) fn put_query(out: &mut Vec<u8>, query: QueryId) {
    out.extend(query.source.0.to_be_bytes());
    out.extend(query.number.to_be_bytes());
}

pub(crate) fn read_query(reader: &mut Reader<'_>) -> Result<QueryId, Malformed> {
    Ok(QueryId {
        source: DomainId(reader.u32()?),
        number: reader.u64()?,
    })
}

pub(crate) fn put_hops(out: &mut Vec<u8>, hops: &[Hop]) {
    out.push(hops.len() as u8);
    for hop in hops {
        out.extend(hop.domain.0.to_be_bytes());
        put_segment(out, hop.segment);
    }
}

pub(crate) fn read_hops(reader: &mut Reader<'_>) -> Result<Vec<Hop>, Malformed> {
    let count = read_count(reader, HOPS_MAX)?;
    let hop = |_| {
        Ok(Hop {
            domain: DomainId(reader.u32()?),
            segment: read_segment(reader)?,
        })
    };
    (0..count).map(hop).collect()
}

pub(crate) fn put_segments(out: &mut Vec<u8>, segments: &[Segment]) {
    out.push(segments.len() as u8);
    for segment in segments {
        put_segment(out, *segment);
    }
}

pub(crate) fn read_segments(reader: &mut Reader<'_>) -> Result<Vec<Segment>, Malformed> {
    let count = read_count(reader, HOPS_MAX)?;
    (0..count).map(|_| read_segment(reader)).collect()
}

pub(crate) fn put_trace(out: &mut Vec<u8>, trace: &[DomainId]) {
    out.push(trace.len() as u8);
    for domain in trace {
        out.extend(domain.0.to_be_bytes());
    }
}

pub(crate) fn read_trace(reader: &mut Reader<'_>) -> Result<Vec<DomainId>, Malformed> {
    let count = read_count(reader, HOPS_MAX)?;
    (0..count).map(|_| reader.u32().map(DomainId)).collect()
}

pub(crate) fn put_vector(out: &mut Vec<u8>, vector: &Trc) {
    put_steps(out, vector.steps());
}

pub(crate) fn read_vector(reader: &mut Reader<'_>) -> Result<Trc, Malformed> {
    Trc::new(read_steps(reader)?).map_err(|_| Malformed)
}

/// Appends a count and, for each step, three varints: distance from the previous step, length, rate.
pub(crate) fn put_steps(out: &mut Vec<u8>, steps: &[Step]) {
    out.extend((steps.len() as u16).to_be_bytes());
    let mut done = 0;
    for step in steps {
        put_varint(out, step.from.as_nanos() - done);
        put_varint(out, step.till.as_nanos() - step.from.as_nanos());
        put_varint(out, step.rate.as_bps());
        done = step.till.as_nanos();
    }
}

pub(crate) fn read_steps(reader: &mut Reader<'_>) -> Result<Vec<Step>, Malformed> {
    let count = usize::from(reader.u16()?);
    if count > RANGES_MAX {
        return Err(Malformed);
    }
    let mut steps = Vec::new();
    let mut done = 0_u64;
    for _ in 0..count {
        let from = done.checked_add(reader.varint()?).ok_or(Malformed)?;
        done = from.checked_add(reader.varint()?).ok_or(Malformed)?;
        steps.push(Step {
            from: Instant::from_nanos(from),
            till: Instant::from_nanos(done),
            rate: Rate::from_bps(reader.varint()?).ok_or(Malformed)?,
        });
    }
    Ok(steps)
}

/// Appends the number of a refusal and its eight octets of detail.
pub(crate) fn put_refusal(out: &mut Vec<u8>, refusal: Refusal) {
    let (kind, detail) = match refusal {
        Refusal::UnknownPort(port) => (1, u64::from(port.0)),
        Refusal::UnknownNeighbor(domain) => (2, u64::from(domain.0)),
        Refusal::Loop(domain) => (3, u64::from(domain.0)),
        Refusal::ClockOffset(nanos) => (4, nanos.cast_unsigned()),
        Refusal::NoCapacity
        | Refusal::Misrouted
        | Refusal::Expired
        | Refusal::Times
        | Refusal::Horizon
        | Refusal::RateLimit
        | Refusal::Quota
        | Refusal::NoTransit
        | Refusal::TooLarge
        | Refusal::Unknown
        | Refusal::Restarted
        | Refusal::Undecided
        | Refusal::Aborted
        | Refusal::Released
        | Refusal::DeviceFailed
        | Refusal::NoPath
        | Refusal::NoAnswer
        | Refusal::MissesDeadline => (plain_number(refusal), 0),
    };
    out.push(kind);
    out.extend(detail.to_be_bytes());
}

/// Takes the number of a refusal and its detail.
pub(crate) fn read_refusal(reader: &mut Reader<'_>) -> Result<Refusal, Malformed> {
    let (kind, detail) = (reader.u8()?, reader.u64()?);
    let number = || u32::try_from(detail).map_err(|_| Malformed);
    Ok(match kind {
        1 => Refusal::UnknownPort(PortId(number()?)),
        2 => Refusal::UnknownNeighbor(DomainId(number()?)),
        3 => Refusal::Loop(DomainId(number()?)),
        4 => Refusal::ClockOffset(detail.cast_signed()),
        _ => {
            let nth = usize::from(kind).checked_sub(PLAIN_FROM).ok_or(Malformed)?;
            let plain = PLAIN.get(nth).filter(|_| detail == 0);
            *plain.ok_or(Malformed)?
        }
    })
}

fn plain_number(refusal: Refusal) -> u8 {
    let nth = PLAIN.iter().position(|plain| *plain == refusal);
    // a refusal that is missing below is sent as the last one
    (PLAIN_FROM + nth.unwrap_or(PLAIN.len() - 1)) as u8
}

/// Takes a count in one octet.
pub(crate) fn read_count(reader: &mut Reader<'_>, most: usize) -> Result<usize, Malformed> {
    let count = usize::from(reader.u8()?);
    (count <= most).then_some(count).ok_or(Malformed)
}

fn put_segment(out: &mut Vec<u8>, segment: Segment) {
    out.extend(segment.ingress.0.to_be_bytes());
    out.extend(segment.egress.0.to_be_bytes());
}

fn read_segment(reader: &mut Reader<'_>) -> Result<Segment, Malformed> {
    Ok(Segment {
        ingress: PortId(reader.u32()?),
        egress: PortId(reader.u32()?),
    })
}

/// Refusals without details, in the order of their numbers.
const PLAIN: [Refusal; 18] = [
    Refusal::NoCapacity,
    Refusal::Misrouted,
    Refusal::Expired,
    Refusal::Times,
    Refusal::Horizon,
    Refusal::RateLimit,
    Refusal::Quota,
    Refusal::NoTransit,
    Refusal::TooLarge,
    Refusal::Unknown,
    Refusal::Restarted,
    Refusal::Undecided,
    Refusal::Released,
    Refusal::DeviceFailed,
    Refusal::NoPath,
    Refusal::NoAnswer,
    Refusal::MissesDeadline,
    Refusal::Aborted,
];
/// Number of the first refusal without details.
const PLAIN_FROM: usize = 8;
