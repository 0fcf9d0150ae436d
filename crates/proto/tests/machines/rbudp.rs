//! RBUDP machines in virtual time: every byte is placed once on any path.

use std::time::Duration;

use lighthaul_base::{Endpoint, Instant, Load, Rate, Span};
use lighthaul_proto::rbudp::{
    Config, Framing, PeerMisbehaved, Receiver, ReceiverEvent, Sender, SenderEvent,
};
use lighthaul_sim::{FlowEvent, HostConfig, PathConfig, Simulation};
use proptest::prelude::*;

use crate::copy;
use crate::object::any_object;
use crate::path::{any_path, gigabit};

type Event = FlowEvent<SenderEvent, ReceiverEvent>;

fn config(object_len: u64) -> Config {
    Config {
        framing: Framing {
            object_len,
            packet_len: 1464,
            overhead_len: 28,
        },
        rate: Rate::from_mbps(500),
        burst: None,
        stream: 1,
        settle: Duration::from_millis(2),
        repeat: Duration::ZERO,
        feedback: None,
    }
}

/// Runs a transfer to its end. Returns its world and the events.
fn run(config: Config, path: &PathConfig, seed: u64) -> (Simulation<Sender, Receiver>, Vec<Event>) {
    let sender = Sender::new(Instant::ZERO, config, seed);
    let receiver = Receiver::new(Instant::ZERO, config, seed);
    copy::run(sender, receiver, path, seed)
}

fn assert_whole(world: &Simulation<Sender, Receiver>, heard: &[Event], object_len: u64) {
    let ends = (SenderEvent::Complete, ReceiverEvent::Complete);
    copy::assert_whole(world, heard, object_len, ends);
}

#[test]
fn lossless_path_takes_one_blast_and_one_round_trip() {
    let (world, heard) = run(config(45_000_000), &gigabit(Duration::from_millis(55)), 1);
    assert_whole(&world, &heard, 45_000_000);
    let packets = 45_000_000_u64.div_ceil(1464);
    assert_eq!(
        heard,
        [
            FlowEvent::Left(SenderEvent::Round { number: 1, packets }),
            FlowEvent::Left(SenderEvent::Asked { round: 1 }),
            FlowEvent::Right(ReceiverEvent::Tallied {
                round: 1,
                received: packets,
                missing: 0
            }),
            FlowEvent::Right(ReceiverEvent::Complete),
            FlowEvent::Left(SenderEvent::Complete),
        ]
    );
    // the bytes on the wire at the rate, and a round trip
    let wire = (45_000_000 + packets * 36) as f64 * 8.0 / 500e6 + 0.110;
    let took = world.now().as_secs_f64();
    assert!((took - wire).abs() < wire * 0.002, "{took} s, not {wire} s");
    assert_eq!(
        (world.left().resent(), world.right().arrivals().duplicates),
        (0, 0)
    );
}

#[test]
fn small_objects_are_transferred() {
    for object_len in [0, 1, 1463, 1464, 1465] {
        let (world, heard) = run(config(object_len), &gigabit(Duration::from_millis(5)), 1);
        assert_whole(&world, &heard, object_len);
    }
}

#[test]
fn same_seed_gives_same_events() {
    let mut world = gigabit(Duration::from_millis(50));
    world.there.loss_ppb = 20_000_000;
    let twins: Vec<_> = [7, 7, 8]
        .map(|seed| {
            let (world, heard) = run(config(5_000_000), &world, seed);
            (world.now(), heard)
        })
        .into();
    assert_eq!(twins[0], twins[1]);
    assert_ne!(twins[0], twins[2]);
}

#[test]
fn slow_host_receives_the_whole_object() {
    let mut world = gigabit(Duration::from_millis(5));
    world.host = HostConfig {
        absorb: Some(Rate::from_mbps(300)),
        socket_bytes_max: 200_000,
        ..HostConfig::default()
    };
    let (world, heard) = run(config(20_000_000), &world, 3);
    assert_whole(&world, &heard, 20_000_000);
    assert!(world.host().counters().dropped_queue.packets > 1000);
}

#[test]
fn broken_path_reports_barren_blasts() {
    let mut world = gigabit(Duration::from_millis(5));
    world.there.loss_ppb = 1_000_000_000;
    let config = config(100_000);
    let sender = Sender::new(Instant::ZERO, config, 1);
    let mut world = Simulation::new(sender, Receiver::new(Instant::ZERO, config, 1), &world, 1);
    let mut barren = 0;
    world.run(Instant::from_nanos(1_000_000_000), |_, event| {
        barren += u16::from(matches!(event, FlowEvent::Left(SenderEvent::Barren { .. })));
    });
    assert!(barren > 20);
    assert_eq!(world.left().round(), barren + 1);
}

#[test]
fn full_backlog_stops_and_empty_backlog_resumes_the_sender() {
    let config = config(5_000_000);
    let sender = Sender::new(Instant::ZERO, config, 1);
    let receiver = Receiver::new(Instant::ZERO, config, 1);
    let mut world = Simulation::new(sender, receiver, &gigabit(Duration::from_millis(5)), 1);
    let load = |backlog_bytes| Load {
        backlog_bytes,
        backlog_bytes_max: 100,
        ..Load::default()
    };
    world.run(Instant::from_nanos(20_000_000), |_, _| ());
    world.handle_load(Instant::from_nanos(20_000_000), load(51), |_, _| ());
    world.run(Instant::from_nanos(30_000_000), |_, _| ());
    let sent = world.left().sent();
    assert!(world.left().is_held());
    world.run(Instant::from_nanos(500_000_000), |_, _| ());
    assert_eq!(world.left().sent(), sent);
    world.handle_load(Instant::from_nanos(500_000_000), load(30), |_, _| ());
    world.run(Instant::from_nanos(600_000_000), |_, _| ());
    assert_eq!(
        world.left().sent(),
        sent,
        "between the marks nothing changes"
    );
    world.handle_load(Instant::from_nanos(600_000_000), load(24), |_, _| ());
    let end = world.run(Instant::from_nanos(2_000_000_000), |_, _| ());
    assert_eq!(world.left().missing(), 0);
    // the pacer does not catch up after the pause: the rest takes its time at the rate
    let rest = (config.framing.packets() - sent) as f64 * 1500.0 * 8.0 / 500e6;
    assert!(end.as_secs_f64() > 0.6 + rest);
}

#[test]
fn new_rate_applies_within_a_blast() {
    let config = config(50_000_000);
    let sender = Sender::new(Instant::ZERO, config, 1);
    let receiver = Receiver::new(Instant::ZERO, config, 1);
    let mut world = Simulation::new(sender, receiver, &gigabit(Duration::from_millis(1)), 1);
    world.run(Instant::from_nanos(100_000_000), |_, _| ());
    let sent = world.left().sent();
    world.handle_rate(
        Instant::from_nanos(100_000_000),
        Rate::from_mbps(50),
        |_, _| (),
    );
    world.run(Instant::from_nanos(1_100_000_000), |_, _| ());
    let more = (world.left().sent() - sent) * 1500;
    assert!(more.abs_diff(6_250_000) < 70_000, "{more} bytes");
}

#[test]
fn upcoming_matches_sent_packets() {
    let config = config(10_000);
    let sender = Sender::new(Instant::ZERO, config, 1);
    assert_eq!(sender.upcoming(0, 4096), Some(Span::new(0, 4096)));
    assert_eq!(sender.upcoming(4096, 4096), Some(Span::new(4096, 4096)));
    assert_eq!(sender.upcoming(8192, 4096), Some(Span::new(8192, 1808)));
    assert_eq!(sender.upcoming(10_000, 4096), None);
    assert_eq!(sender.upcoming(u64::MAX, 4096), None);
    assert_eq!(sender.upcoming(0, 0), None);
}

#[test]
fn differing_object_lengths_fail() {
    for (left, right) in [(10_000, 20_000), (20_000, 10_000)] {
        let sender = Sender::new(Instant::ZERO, config(left), 1);
        let receiver = Receiver::new(Instant::ZERO, config(right), 1);
        let mut world = Simulation::new(sender, receiver, &gigabit(Duration::from_millis(5)), 1);
        let mut failed = false;
        world.run(Instant::from_nanos(10_000_000_000), |_, event| {
            failed |= matches!(
                event,
                FlowEvent::Right(ReceiverEvent::Failed(PeerMisbehaved::DoneAfter(_)))
            );
        });
        assert!(failed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn every_byte_is_placed_once_on_any_path(
        (object_len, packet_len) in any_object(),
        mbps in 1_u64..2_000,
        path in any_path(),
        settle_us in 0_u64..10_000,
        seed: u64,
    ) {
        let config = Config {
            framing: Framing {
                object_len,
                packet_len,
                ..config(0).framing
            },
            rate: Rate::from_mbps(mbps),
            settle: Duration::from_micros(settle_us),
            repeat: Duration::from_micros(settle_us),
            ..config(0)
        };
        let (world, heard) = run(config, &path, seed);
        assert_whole(&world, &heard, object_len);
        let (left, right) = (world.left(), world.right());
        let seen = world.there().counters();
        prop_assert_eq!(left.sent(), seen.offered.packets);
        prop_assert_eq!(left.sent(), config.framing.packets() + left.resent());
        prop_assert_eq!(right.arrivals().datagrams, seen.delivered.packets + seen.duplicated.packets);
        prop_assert_eq!(right.arrivals().datagrams, right.received() + right.arrivals().duplicates);
        prop_assert_eq!(right.arrivals().ignored + left.ignored(), 0);
    }
}
