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

/// Returns the octets that `docs/src/wire.md` describes: version, type and time, then these fields.
fn documented(kind: u8, fields: &[&[u8]]) -> Vec<u8> {
    let mut octets = vec![3, kind];
    octets.extend(5_u64.to_be_bytes());
    octets.extend(fields.concat());
    octets
}

fn assert_octets(body: Body, kind: u8, fields: &[&[u8]]) {
    let sent = Instant::from_nanos(5);
    let octets = Message { sent, body }.encode();
    assert_eq!(octets, documented(kind, fields), "type {kind}");
}

/// Returns a route with its octets.
fn one_hop() -> (Vec<Hop>, [u8; 13]) {
    let segment = Segment {
        ingress: PortId(11),
        egress: PortId(12),
    };
    let domain = DomainId(10);
    let octets = [1, 0, 0, 0, 10, 0, 0, 0, 11, 0, 0, 0, 12];
    (vec![Hop { domain, segment }], octets)
}

/// Returns a trace with its octets.
fn one_domain() -> (Vec<DomainId>, [u8; 5]) {
    (vec![DomainId(13)], [1, 0, 0, 0, 13])
}

/// Returns two steps with their octets. The second one begins 300 ns after the end of the first one; 300 has two octets
/// as varint.
fn two_steps() -> (Vec<Step>, [u8; 12]) {
    let steps = [(1000, 1100), (1400, 1401)].map(|(from, till)| Step {
        from: Instant::from_nanos(from),
        till: Instant::from_nanos(till),
        rate: Rate::from_bps(1000).expect("a rate"),
    });
    let octets = [0, 2, 0xE8, 7, 100, 0xE8, 7, 0xAC, 2, 1, 0xE8, 7];
    (steps.to_vec(), octets)
}

#[test]
fn octets_of_queries_follow_the_documented_layout() {
    let query = QueryId {
        source: DomainId(8),
        number: 9,
    };
    let in_query = [0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9];
    let ((hops, in_hops), (trace, in_trace)) = (one_hop(), one_domain());
    let asked = Body::Query {
        query,
        hops,
        trace,
        from: Instant::from_nanos(14),
        till: Instant::from_nanos(15),
        is_protected: true,
    };
    let window = [14_u64, 15].map(u64::to_be_bytes).concat();
    assert_octets(asked, 1, &[&in_query, &in_hops, &in_trace, &window, &[1]]);
    let (steps, in_steps) = two_steps();
    let losses = Losses {
        guard: Duration::from_nanos(300),
        packet_bytes: 16,
    };
    let offer = Offer::new(steps[0].rate, steps).and_then(|one| one.with_losses(losses));
    let offer = offer.expect("a valid offer");
    let unit = 1000_u64.to_be_bytes();
    let fields: [&[u8]; 5] = [&in_query, &unit, &[0xAC, 2], &[0, 16], &in_steps];
    assert_octets(Body::Offer { query, offer }, 2, &fields);
    let refusal = Refusal::ClockOffset(-2);
    let behind = (-2_i64).to_be_bytes();
    let refused = Body::NoOffer { query, refusal };
    assert_octets(refused, 3, &[&in_query, &[4], &behind]);
}

#[test]
fn octets_of_reservations_follow_the_documented_layout() {
    let key = Key {
        source: DomainId(0x0102_0304),
        id: CorrelationId(0x0506),
        attempt: 7,
        leg: 255,
    };
    let id = 0x0506_u128.to_be_bytes();
    let in_key = [&[1, 2, 3, 4][..], &id, &[7, 255]].concat();
    let ((hops, in_hops), (trace, in_trace)) = (one_hop(), one_domain());
    let (steps, in_steps) = two_steps();
    let held = Body::Hold {
        key,
        hops,
        trace,
        vector: Trc::new(steps).expect("a valid vector"),
        hold_till: Instant::from_nanos(14),
        decide_till: Instant::from_nanos(15),
    };
    let times = [14_u64, 15].map(u64::to_be_bytes).concat();
    assert_octets(held, 4, &[&in_key, &in_hops, &in_trace, &in_steps, &times]);
    for (kind, body) in [
        (5, Body::Held { key }),
        (7, Body::Commit { key }),
        (8, Body::Committed { key }),
        (9, Body::Abort { key }),
        (11, Body::Release { key }),
        (12, Body::Released { key }),
        (13, Body::Ask { key }),
    ] {
        assert_octets(body, kind, &[&in_key]);
    }
    let refusal = Refusal::Loop(DomainId(258));
    let detail = 258_u64.to_be_bytes();
    for (kind, body) in [
        (6, Body::Refused { key, refusal }),
        (10, Body::Aborted { key, refusal }),
        (15, Body::Notify { key, refusal }),
    ] {
        assert_octets(body, kind, &[&in_key, &[3], &detail]);
    }
    assert_octets(Body::RangeDone { key, range: 258 }, 14, &[&in_key, &[1, 2]]);
}

#[test]
fn refusals_have_the_documented_numbers() {
    let key = Key {
        source: DomainId(1),
        id: CorrelationId(1),
        attempt: 0,
        leg: 0,
    };
    let in_key = [&1_u32.to_be_bytes()[..], &1_u128.to_be_bytes(), &[0, 0]].concat();
    for (number, refusal) in [
        (1, Refusal::UnknownPort(PortId(0))),
        (2, Refusal::UnknownNeighbor(DomainId(0))),
        (3, Refusal::Loop(DomainId(0))),
        (4, Refusal::ClockOffset(0)),
        (8, Refusal::NoCapacity),
        (9, Refusal::Misrouted),
        (10, Refusal::Expired),
        (11, Refusal::Times),
        (12, Refusal::Horizon),
        (13, Refusal::RateLimit),
        (14, Refusal::Quota),
        (15, Refusal::NoTransit),
        (16, Refusal::TooLarge),
        (17, Refusal::Unknown),
        (18, Refusal::Restarted),
        (19, Refusal::Undecided),
        (20, Refusal::Released),
        (21, Refusal::DeviceFailed),
        (22, Refusal::NoPath),
        (23, Refusal::NoAnswer),
        (24, Refusal::MissesDeadline),
        (25, Refusal::Aborted),
    ] {
        let body = Body::Refused { key, refusal };
        assert_octets(body, 6, &[&in_key, &[number], &[0; 8]]);
    }
}
