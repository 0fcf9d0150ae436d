//! Copies of several objects on one circuit, in virtual time.

use std::time::Duration;

use lighthaul_base::trc::Step;
use lighthaul_base::{Deadline, Endpoint, Instant, Load, Message, Rate, Span, Transmit, Trc, Via};
use lighthaul_proto::vbtp::{Config, Framing};
use lighthaul_sim::{FlowEvent, LinkConfig, PathConfig, Simulation};
use lighthaul_workload::circuit::{
    CircuitCopy, CircuitEvent, CircuitReceiver, CircuitSender, TAG_LEN,
};
use proptest::prelude::*;

const PACKET_LEN: u32 = 8928;
const OVERHEAD_LEN: u32 = 64;
const WIRE_LEN: u64 = (PACKET_LEN + OVERHEAD_LEN) as u64 + 8;

/// Sender with a record of what it sends on the circuit.
struct Recorded {
    sender: CircuitSender,
    /// Times and bytes on the wire of datagrams.
    sent: Vec<(Instant, u64)>,
}

impl Endpoint for Recorded {
    type Event = CircuitEvent;

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        self.sender.handle_message(now, message)
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.sender.handle_timeout(now);
    }

    fn handle_load(&mut self, now: Instant, load: Load) {
        self.sender.handle_load(now, load);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let transmit = self.sender.poll_transmit(now)?;
        if transmit.via == Via::Datagram {
            let head = transmit.head.as_slice().len() as u64 - u64::from(TAG_LEN);
            let len = u64::from(transmit.body.object_len());
            self.sent.push((now, u64::from(OVERHEAD_LEN) + head + len));
        }
        Some(transmit)
    }

    fn poll_event(&mut self) -> Option<CircuitEvent> {
        self.sender.poll_event()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.sender.poll_timeout()
    }
}

/// Copy that has ended.
struct Run {
    world: Simulation<Recorded, CircuitReceiver>,
    /// Times at which the last byte left the circuit, and at which the receiver had all.
    released: Instant,
    arrived: Instant,
}

fn run(copy: CircuitCopy, trc: &Trc, rtt: Duration, loss_ppb: u64, seed: u64) -> Run {
    let peak = trc.steps().iter().map(|step| step.rate).max();
    let path = PathConfig {
        there: LinkConfig {
            rate: peak,
            delay: rtt / 2,
            queue_bytes_max: 64 << 20,
            loss_ppb,
            ..LinkConfig::default()
        },
        stream_delay: rtt / 2,
        stream_rate: peak,
        overhead_len: OVERHEAD_LEN - TAG_LEN,
        ..PathConfig::default()
    };
    let sender = CircuitSender::new(Instant::ZERO, copy, trc.clone());
    let left = Recorded {
        sender,
        sent: Vec::new(),
    };
    let mut world = Simulation::new(left, CircuitReceiver::new(copy), &path, seed).with_ledger();
    let mut events = Vec::new();
    world.run(Instant::from_nanos(u64::MAX / 2), |now, event| {
        events.push((now, event));
    });
    let when = |wanted| {
        let found: Vec<_> = events
            .iter()
            .filter(|(_, event)| *event == wanted)
            .collect();
        assert_eq!(found.len(), 1, "{wanted:?}: {events:?}");
        found[0].0
    };
    when(FlowEvent::Left(CircuitEvent::Complete));
    assert!(world.ledger().expect("a ledger").is_whole(copy.bytes));
    Run {
        released: when(FlowEvent::Left(CircuitEvent::Released)),
        arrived: when(FlowEvent::Right(CircuitEvent::Complete)),
        world,
    }
}

/// Returns the time at which a sender that is never idle has sent `bytes` on the vector, by trying each millisecond.
fn reference(trc: &Trc, bytes: u64) -> Instant {
    let mut at = trc.start();
    while at < trc.end() && trc.bytes_between(trc.start(), at) < bytes {
        at += Duration::from_millis(1);
    }
    at
}

fn copy(bytes: u64, object_len: u64, lanes: usize, rtt: Duration, rate: Rate) -> CircuitCopy {
    CircuitCopy {
        each: Config {
            framing: Framing {
                object_len,
                packet_len: PACKET_LEN,
                overhead_len: OVERHEAD_LEN,
            },
            stream: 0,
            burst: None,
            share: (1, 1),
            rtt,
            settle: Duration::from_millis(2),
            ack_every: Duration::from_millis(10),
            window: Config::window_for(rate, rtt, PACKET_LEN),
            block: 128,
            losses_max: 1 << 14,
        },
        bytes,
        lanes,
    }
}

impl Run {
    fn sent_bytes(&self) -> u64 {
        self.world.left().sent.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Asserts that a policer with the vector's rates and a bucket of a millisecond drops nothing.
    fn assert_policed(&self, trc: &Trc) {
        const WORK: u128 = 8_000_000_000;
        let burst = trc
            .steps()
            .iter()
            .map(|step| step.rate.bytes_in(Duration::from_millis(1)));
        let burst = u128::from(burst.max().expect("a step").max(2 * WIRE_LEN)) * WORK;
        let (mut seen, mut tokens) = (Instant::ZERO, burst);
        for (at, bytes) in &self.world.left().sent {
            tokens = (tokens + trc.work_between(seen, *at)).min(burst);
            seen = *at;
            assert!(trc.rate_at(*at).is_some(), "{at}: nothing may leave");
            let bytes = u128::from(*bytes) * WORK;
            assert!(bytes <= tokens, "{at}: the policer drops it");
            tokens -= bytes;
        }
    }
}

#[test]
fn circuit_is_not_idle_between_objects() {
    let (rtt, rate) = (Duration::from_millis(100), Rate::from_mbps(10_000));
    let used = |lanes| {
        let copy = copy(10_000_000_000, 1 << 30, lanes, rtt, rate);
        let run = run(copy, &Trc::steady(rate), rtt, 0, 1);
        assert_eq!(run.world.left().sender.tail(), 0);
        let carried = rate.bytes_in(run.released.since(Instant::ZERO));
        // the last reports need a round trip, and nothing else happens after the release
        assert!(run.arrived <= run.released + rtt, "{}", run.arrived);
        run.sent_bytes() as f64 / carried as f64
    };
    let (one, two) = (used(1), used(2));
    println!("used by one lane {one:.4}, by two {two:.4}");
    assert!(one < 0.91 && two > 0.998, "{one} {two}");
}

#[test]
fn objects_shorter_than_a_round_trip_need_more_lanes() {
    let (rtt, rate) = (Duration::from_millis(100), Rate::from_mbps(1000));
    let used = |lanes| {
        let copy = copy(200_000_000, 5_000_000, lanes, rtt, rate);
        let run = run(copy, &Trc::steady(rate), rtt, 0, 1);
        run.sent_bytes() as f64 / rate.bytes_in(run.released.since(Instant::ZERO)) as f64
    };
    assert!(used(2) < 0.7 && used(4) > 0.99, "{} {}", used(2), used(4));
}

#[test]
fn losses_before_the_release_are_repaired_on_the_circuit() {
    let (rtt, rate) = (Duration::from_millis(100), Rate::from_mbps(10_000));
    let copy = copy(10_000_000_000, 1 << 30, 2, rtt, rate);
    let run = run(copy, &Trc::steady(rate), rtt, 10_000_000, 1);
    let sender = &run.world.left().sender;
    let (resent, tail) = (sender.resent(), sender.tail());
    println!("{resent} packets sent again, {tail} of them on the stream");
    // of each object, those of the last round trip: 0.1 of 0.87 s
    assert!(tail * 6 < resent && tail > 0, "{tail} of {resent}");
    run.assert_policed(&Trc::steady(rate));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn several_objects_arrive_on_any_vector(
        parts in prop::collection::vec((prop_oneof![3 => Just(0_u64), 1 => 1_u64..300], 1_u64..300, 50_u64..3_000), 1..6),
        (bytes, object_len) in (1_u64..100_000_000, 1_000_000_u64..40_000_000),
        lanes in 1_usize..4,
        rtt_ms in 1_u64..60,
        loss_ppb in prop_oneof![Just(0_u64), 1_u64..100_000_000],
        seed: u64,
    ) {
        let mut end = 0;
        let steps = parts.into_iter().map(|(gap, len, mbps)| {
            let from = end + gap;
            end = from + len;
            let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
            Step { from: at(from), till: at(end), rate: Rate::from_mbps(mbps) }
        });
        let trc = Trc::new(steps.collect()).unwrap();
        let rtt = Duration::from_millis(rtt_ms);
        let copy = copy(bytes, object_len, lanes, rtt, Rate::from_mbps(3_000));
        let run = run(copy, &trc, rtt, loss_ppb, seed);
        run.assert_policed(&trc);
        let carried = trc.bytes_between(trc.start(), trc.end());
        prop_assert!(run.sent_bytes() <= carried);
        // without losses, lanes that are always ready leave the circuit when a sender that is never idle does
        let shortest = Rate::from_mbps(3_000).time_for(object_len);
        let is_ready = lanes == 3 && shortest > rtt + Duration::from_millis(2);
        if loss_ppb == 0 && is_ready && copy.wire_bytes() < carried {
            let reference = reference(&trc, copy.wire_bytes());
            let slack = Duration::from_millis(4) * copy.objects() as u32;
            prop_assert!(run.released <= reference + slack, "{} {reference}", run.released);
        }
    }
}
