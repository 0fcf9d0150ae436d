//! Messages and records survive their encoding, and everything else is refused.

use std::time::Duration;

use lighthaul_base::trc::{STEPS_MAX, Step, Trc};
use lighthaul_base::{Instant, Malformed, Rate};
use lighthaul_stargate::offer::{GUARD_MAX, Losses, RANGES_MAX};
use lighthaul_stargate::wire::LEN_MAX;
use lighthaul_stargate::{
    Body, Child, CorrelationId, DomainId, Hop, Key, LostLeg, Message, Offer, PortId, QueryId,
    Record, Refusal, Segment, StoredReservation, StoredStage,
};
use proptest::prelude::*;

fn key() -> impl Strategy<Value = Key> {
    (any::<u32>(), any::<u128>(), any::<u8>(), any::<u8>()).prop_map(
        |(source, id, attempt, leg)| Key {
            source: DomainId(source),
            id: CorrelationId(id),
            attempt,
            leg,
        },
    )
}

fn segment() -> impl Strategy<Value = Segment> {
    any::<(u32, u32)>().prop_map(|(ingress, egress)| Segment {
        ingress: PortId(ingress),
        egress: PortId(egress),
    })
}

fn hops() -> impl Strategy<Value = Vec<Hop>> {
    let hop = (any::<u32>(), segment()).prop_map(|(domain, segment)| Hop {
        domain: DomainId(domain),
        segment,
    });
    prop::collection::vec(hop, 0..32)
}

fn trace() -> impl Strategy<Value = Vec<DomainId>> {
    prop::collection::vec(any::<u32>().prop_map(DomainId), 0..32)
}

fn steps(least: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = (0_u64..1 << 40, 1_u64..1 << 40, 1000_u64..1 << 38);
    prop::collection::vec(step, least..40).prop_map(|steps| {
        let mut done = 0;
        let step = |(away, len, rate)| {
            let from = done + away;
            done = from + len;
            Step {
                from: Instant::from_nanos(from),
                till: Instant::from_nanos(done),
                rate: Rate::from_bps(rate).unwrap_or(Rate::UNLIMITED),
            }
        };
        steps.into_iter().map(step).collect()
    })
}

fn vector() -> impl Strategy<Value = Trc> {
    steps(1).prop_filter_map("a valid vector", |steps| Trc::new(steps).ok())
}

fn offer() -> impl Strategy<Value = Offer> {
    let losses = (0..GUARD_MAX.as_nanos() as u64, any::<u16>());
    let parts = (1000_u64..5000, steps(0), losses);
    parts.prop_filter_map("a valid offer", |(unit, steps, (guard, packet_bytes))| {
        let guard = Duration::from_nanos(guard);
        let losses = Losses {
            guard,
            packet_bytes,
        };
        Offer::new(Rate::from_bps(unit)?, steps)?.with_losses(losses)
    })
}

fn refusal() -> impl Strategy<Value = Refusal> {
    prop_oneof![
        any::<u32>().prop_map(|port| Refusal::UnknownPort(PortId(port))),
        any::<u32>().prop_map(|domain| Refusal::UnknownNeighbor(DomainId(domain))),
        any::<u32>().prop_map(|domain| Refusal::Loop(DomainId(domain))),
        any::<i64>().prop_map(Refusal::ClockOffset),
        prop::sample::select(vec![
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
            Refusal::Aborted,
            Refusal::Released,
            Refusal::DeviceFailed,
            Refusal::NoPath,
            Refusal::NoAnswer,
            Refusal::MissesDeadline,
        ]),
    ]
}

fn instant() -> impl Strategy<Value = Instant> {
    any::<u64>().prop_map(Instant::from_nanos)
}

fn query() -> impl Strategy<Value = QueryId> {
    any::<(u32, u64)>().prop_map(|(source, number)| QueryId {
        source: DomainId(source),
        number,
    })
}

fn body() -> impl Strategy<Value = Body> {
    let long = prop_oneof![
        (
            query(),
            hops(),
            trace(),
            (instant(), instant(), any::<bool>())
        )
            .prop_map(
                |(query, hops, trace, (from, till, is_protected))| Body::Query {
                    query,
                    hops,
                    trace,
                    from,
                    till,
                    is_protected,
                }
            ),
        (query(), offer()).prop_map(|(query, offer)| Body::Offer { query, offer }),
        (query(), refusal()).prop_map(|(query, refusal)| Body::NoOffer { query, refusal }),
        (key(), hops(), trace(), vector(), instant(), instant()).prop_map(
            |(key, hops, trace, vector, hold_till, decide_till)| Body::Hold {
                key,
                hops,
                trace,
                vector,
                hold_till,
                decide_till
            }
        ),
    ];
    let short = (0_u8..11, key(), refusal(), any::<u16>());
    let short = short.prop_map(|(kind, key, refusal, range)| match kind {
        0 => Body::Held { key },
        1 => Body::Refused { key, refusal },
        2 => Body::Commit { key },
        3 => Body::Committed { key },
        4 => Body::Abort { key },
        5 => Body::Aborted { key, refusal },
        6 => Body::Release { key },
        7 => Body::Released { key },
        8 => Body::Ask { key },
        9 => Body::RangeDone { key, range },
        _ => Body::Notify { key, refusal },
    });
    prop_oneof![long, short]
}

fn stored() -> impl Strategy<Value = StoredReservation> {
    let child = (any::<u32>(), any::<u8>(), hops()).prop_map(|(neighbor, leg, hops)| Child {
        neighbor: DomainId(neighbor),
        leg,
        hops,
    });
    let stage = prop::sample::select(vec![
        StoredStage::Holding,
        StoredStage::Committed,
        StoredStage::Closing,
    ]);
    let first = (
        key(),
        prop::option::of(any::<u32>().prop_map(DomainId)),
        prop::collection::vec(segment(), 0..3),
        prop::collection::vec(child, 0..4),
    );
    let times = (instant(), instant(), any::<u64>());
    let lost = (any::<u8>(), refusal()).prop_map(|(leg, refusal)| LostLeg { leg, refusal });
    let stage = (stage, prop::option::of(lost));
    (first, trace(), vector(), times, stage).prop_map(
        |((key, upstream, segments, children), trace, vector, times, stage)| StoredReservation {
            key,
            upstream,
            segments,
            children,
            trace,
            vector,
            guard: Duration::from_nanos(times.2),
            hold_till: times.0,
            decide_till: times.1,
            stage: stage.0,
            lost: stage.1,
        },
    )
}

proptest! {
    #[test]
    fn messages_round_trip(sent in instant(), body in body()) {
        let message = Message { sent, body };
        let octets = message.encode();
        prop_assert!(octets.len() <= LEN_MAX);
        prop_assert_eq!(Message::decode(&octets), Ok(message));
        prop_assert_eq!(Message::decode(&octets[..octets.len() - 1]), Err(Malformed));
        prop_assert_eq!(Message::decode(&[&octets[..], &[0]].concat()), Err(Malformed));
    }

    #[test]
    fn records_round_trip(stored in stored()) {
        for record in [Record::Forget(stored.key), Record::Put(stored)] {
            let octets = record.encode();
            prop_assert_eq!(Record::decode(&octets), Ok(record));
            prop_assert_eq!(Record::decode(&octets[..octets.len() - 1]), Err(Malformed));
        }
    }
}

proptest! {
    #[test]
    fn records_of_earlier_versions_are_read_without_guard_time_and_lost_leg(stored in stored()) {
        let stored = StoredReservation { lost: None, ..stored };
        let mut octets = Record::Put(stored.clone()).encode();
        octets[0] = 2;
        octets.pop();
        prop_assert_eq!(Record::decode(&octets), Ok(Record::Put(stored.clone())));
        octets[0] = 1;
        octets.truncate(octets.len() - 8);
        let guard = Duration::ZERO;
        let expected = Record::Put(StoredReservation { guard, ..stored });
        prop_assert_eq!(Record::decode(&octets), Ok(expected));
        octets[0] = 4;
        prop_assert_eq!(Record::decode(&octets), Err(Malformed));
    }
}

#[test]
fn longest_vector_fits_into_a_message_and_longer_vectors_are_refused() {
    let vector = |count: usize| {
        let step = |nth: u64| Step {
            from: Instant::from_nanos(nth << 51),
            till: Instant::from_nanos((nth << 51) + (1 << 50)),
            rate: Rate::from_bps((1 << 39) + nth % 2).unwrap_or(Rate::UNLIMITED),
        };
        let steps = (0..count as u64).map(step).collect();
        Trc::new(steps).map(|vector| Message {
            sent: Instant::ZERO,
            body: Body::Hold {
                key: Key {
                    source: DomainId(1),
                    id: CorrelationId(1),
                    attempt: 0,
                    leg: 0,
                },
                hops: Vec::new(),
                trace: Vec::new(),
                vector,
                hold_till: Instant::ZERO,
                decide_till: Instant::ZERO,
            },
        })
    };
    let longest = vector(RANGES_MAX).map(|message| message.encode());
    let longest = longest.expect("a valid vector");
    assert!(longest.len() <= LEN_MAX);
    assert!(Message::decode(&longest).is_ok());
    let longer = vector(RANGES_MAX + 1).map(|message| message.encode());
    let longer = longer.expect("a valid vector");
    assert_eq!(Message::decode(&longer), Err(Malformed));
    const { assert!(RANGES_MAX < STEPS_MAX) };
}
