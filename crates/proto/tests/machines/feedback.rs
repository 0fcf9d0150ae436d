//! RBUDP+ in virtual time: competition for the receiver's processor causes no loss.

use std::iter;
use std::time::Duration;

use lighthaul_base::{Absence, Endpoint, Instant, Load, Message, Rate};
use lighthaul_proto::rbudp::pause::{Pause, PauseMessage};
use lighthaul_proto::rbudp::wire::pause_message;
use lighthaul_proto::rbudp::{Config, FeedbackConfig, Framing, Receiver, Sender, SenderEvent};
use lighthaul_sim::{HostConfig, PathConfig, Simulation};
use proptest::prelude::*;

use crate::path::gigabit;

const MS: Duration = Duration::from_millis(1);
const STREAM: u16 = 1;

fn config(object_len: u64, rtt: Duration) -> Config {
    Config {
        framing: Framing {
            object_len,
            packet_len: 1464,
            overhead_len: 28,
        },
        rate: Rate::from_mbps(800),
        burst: None,
        stream: STREAM,
        settle: MS * 2,
        repeat: Duration::ZERO,
        feedback: Some(FeedbackConfig {
            rtt,
            pause_max: MS * 1000,
        }),
    }
}

fn path(rtt: Duration, host: HostConfig) -> PathConfig {
    PathConfig {
        host,
        ..gigabit(rtt / 2)
    }
}

fn busy(competitors: u32) -> HostConfig {
    HostConfig {
        absorb: Some(Rate::from_mbps(850)),
        socket_bytes_max: 256 << 10,
        competitors,
        ..HostConfig::default()
    }
}

fn world(config: Config, world: &PathConfig, seed: u64) -> Simulation<Sender, Receiver> {
    let sender = Sender::new(Instant::ZERO, config, seed);
    let receiver = Receiver::new(Instant::ZERO, config, seed);
    Simulation::new(sender, receiver, world, seed).with_ledger()
}

/// Runs a transfer to its end. Returns its world and the duration in seconds.
fn run(config: Config, path: &PathConfig, seed: u64) -> (Simulation<Sender, Receiver>, f64) {
    let mut world = world(config, path, seed);
    let end = world.run(Instant::from_nanos(u64::MAX / 2), |_, _| ());
    assert!(
        world.ledger().unwrap().is_whole(config.framing.object_len),
        "seed {seed}"
    );
    assert_eq!(world.left().missing(), 0, "seed {seed}");
    (world, end.as_secs_f64())
}

#[test]
fn predicted_pause_is_kept_by_the_receivers_clock() {
    let rtt = MS * 20;
    let mut world = world(
        config(50_000_000, rtt),
        &path(rtt, HostConfig::default()),
        1,
    );
    let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
    world.run(at(50), |_, _| ());
    let load = Load {
        absence: Some(Absence {
            from: at(100),
            len: MS * 60,
            every: Duration::ZERO,
        }),
        ..Load::default()
    };
    world.handle_load(at(50), load, |_, _| ());
    // the last train before the pause arrives slightly later
    world.run(at(101), |_, _| ());
    let before = world.right().arrivals().datagrams;
    world.run(at(160), |_, _| ());
    assert_eq!(world.right().arrivals().datagrams, before);
    world.run(at(170), |_, _| ());
    assert!(world.right().arrivals().datagrams > before + 500);
    assert_eq!(world.right().pauses(), 1);
}

#[test]
fn idle_host_costs_no_throughput() {
    for host in [HostConfig::default(), busy(0)] {
        let plus = config(30_000_000, MS * 10);
        let plain = Config {
            feedback: None,
            ..plus
        };
        let path = path(MS * 10, host);
        let (world, with) = run(plus, &path, 1);
        let (_, without) = run(plain, &path, 1);
        assert!((with - without).abs() < 1e-9, "{with} s, {without} s");
        assert_eq!(world.right().pauses(), 0);
    }
}

#[test]
fn sender_waits_for_receiver_start_at_under_1_percent_cost() {
    let rtt = MS * 2;
    let plus = config(30_000_000, rtt);
    let mut sender = Sender::new(Instant::ZERO, plus, 1);
    assert!(sender.poll_transmit(Instant::ZERO).is_none());
    let path = path(rtt, HostConfig::default());
    let (_, with) = run(plus, &path, 1);
    let plain = Config {
        feedback: None,
        ..plus
    };
    let (_, without) = run(plain, &path, 1);
    assert!(
        with > without && with < without * 1.01,
        "{with} s, {without} s"
    );
}

/// Passes a window to a sender.
fn send_window(sender: &mut Sender, now: Instant, window: Pause) {
    let message = pause_message(STREAM, PauseMessage::Window(window));
    let message = Message {
        via: message.via,
        head: &message.octets(),
        len: 0,
    };
    sender.handle_message(now, message);
}

#[test]
fn pause_event_excludes_wait_for_receiver_start() {
    let config = config(30_000_000, MS);
    let mut sender = Sender::new(Instant::ZERO, config, 1);
    let mut say = |millis: u64, after: Duration, len: Duration| {
        let now = Instant::from_nanos(millis * 1_000_000);
        send_window(&mut sender, now, Pause { after, len });
        let datagrams = iter::from_fn(|| sender.poll_transmit(now)).count();
        let events: Vec<_> = iter::from_fn(|| sender.poll_event()).collect();
        (datagrams, events)
    };
    let first = SenderEvent::Round {
        number: 1,
        packets: config.framing.packets(),
    };
    let second = MS * 1000;
    assert_eq!(say(0, Duration::ZERO, second), (0, vec![first]));
    // the propagation time of message and data has passed when the message arrives
    let (few, quiet) = say(1, MS + MS / 50, second);
    assert_eq!(quiet, [SenderEvent::Paused(true)]);
    assert_eq!(say(2, Duration::ZERO, second), (0, vec![]));
    let (more, loud) = say(3, MS * 5, second);
    assert!(few > 0 && more > few, "{few} and {more} datagrams");
    assert_eq!(loud, [SenderEvent::Paused(false)]);
}

#[test]
fn next_object_starts_with_the_previous_window() {
    let config = config(30_000_000, MS);
    let mut first = Sender::new(Instant::ZERO, config, 1);
    assert_eq!(first.granted(), None);
    let mut hear = |after: Duration, len: Duration| {
        send_window(&mut first, Instant::ZERO, Pause { after, len });
        first.granted()
    };
    let granted = hear(MS * 11, MS * 1000).unwrap();
    assert!(hear(Duration::ZERO, MS * 1000).is_some(), "a full socket");
    assert_eq!(hear(Duration::ZERO, Duration::ZERO), None, "alone again");

    let mut next = Sender::new(Instant::ZERO, config, 2);
    next.remember(granted);
    let mut octets = 0;
    for micros in 0..100_000 {
        let now = Instant::from_nanos(micros * 1000);
        while let Some(transmit) = next.poll_transmit(now) {
            octets += u64::from(config.framing.wire_bytes(transmit.body.object_len()));
        }
    }
    let room = config.rate.bytes_in(MS * 10);
    let packet = u64::from(config.framing.wire_bytes(config.framing.packet_len));
    assert!(
        (room..room + packet).contains(&octets),
        "{octets} of {room}"
    );
}

#[test]
fn feedback_cuts_loss_tenfold_on_busy_host_without_delay() {
    for (rtt, seed) in [(MS, 1), (MS, 2), (MS * 50, 3)] {
        let plus = config(100_000_000, rtt);
        let plain = Config {
            feedback: None,
            ..plus
        };
        let path = path(rtt, busy(5));
        let (with, took) = run(plus, &path, seed);
        let (without, longer) = run(plain, &path, seed);
        let (few, many) = (with.left().resent(), without.left().resent());
        assert!(many > 50_000 && few * 10 < many, "{few} lost, not {many}");
        assert!(took < longer * 1.02, "{took} s, not {longer} s");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn every_byte_is_placed_once_on_any_host(
        object_len in 0_u64..3_000_000,
        mbps in 1_u64..2_000,
        absorb in 50_u64..2_000,
        socket_bytes_max in 20_000_u64..2_000_000,
        competitors in 0_u32..8,
        rtt_us in 0_u64..60_000,
        believed_us in 0_u64..60_000,
        pause_ms in 1_u64..3_000,
        seed: u64,
    ) {
        let rtt = Duration::from_micros(rtt_us);
        let config = Config {
            rate: Rate::from_mbps(mbps),
            feedback: Some(FeedbackConfig {
                rtt: Duration::from_micros(believed_us),
                pause_max: Duration::from_millis(pause_ms),
            }),
            ..config(object_len, rtt)
        };
        let host = HostConfig {
            absorb: Some(Rate::from_mbps(absorb)),
            socket_bytes_max,
            competitors,
            ..HostConfig::default()
        };
        let (world, _) = run(config, &path(rtt, host), seed);
        prop_assert_eq!(world.left().ignored() + world.right().arrivals().ignored, 0);
    }
}
