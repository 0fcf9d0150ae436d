//! SABUL machines in virtual time: every byte is placed once on any path, at the rates that both modes promise.

use std::time::Duration;

use lighthaul_base::{Endpoint, Instant, Load, Rate};
use lighthaul_proto::sabul::{
    Config, Framing, Memory, Mode, PeerMisbehaved, Receiver, ReceiverEvent, Sender, SenderEvent,
};
use lighthaul_sim::{
    FlowConfig, FlowEvent, LinkConfig, Network, PathConfig, RouteConfig, Simulation, Trace,
};
use proptest::prelude::*;

use crate::copy;
use crate::object::any_object;
use crate::path::{any_path, gigabit};

type Event = FlowEvent<SenderEvent, ReceiverEvent>;

fn config(object_len: u64, delay: Duration) -> Config {
    Config {
        framing: Framing {
            object_len,
            packet_len: 1460,
            overhead_len: 28,
        },
        mode: Mode::Paper,
        memory: Memory::new(Rate::from_mbps(500), delay * 2),
        rate_max: Rate::from_mbps(500),
        burst: None,
        stream: 1,
        window_max: 20_000,
        ranges_max: 10_000,
    }
}

/// Runs a transfer to its end. Returns its world and the events.
#[expect(clippy::large_types_passed_by_value, reason = "each test has its own")]
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
fn lossless_transfer_takes_its_time_at_the_rate_and_a_round_trip() {
    let delay = Duration::from_millis(5);
    let mut config = config(45_000_000, delay);
    config.memory.has_lost = true;
    let (world, heard) = run(config, &gigabit(delay), 1);
    assert_whole(&world, &heard, 45_000_000);
    assert_eq!(
        heard,
        [
            FlowEvent::Left(SenderEvent::Passed),
            FlowEvent::Right(ReceiverEvent::Complete),
            FlowEvent::Left(SenderEvent::Complete),
        ]
    );
    let wire = (45_000_000 + config.framing.packets() * 40) as f64 * 8.0 / 500e6 + 0.010;
    let took = world.now().as_secs_f64();
    assert!((took - wire).abs() < wire * 0.005, "{took} s, not {wire} s");
    assert_eq!(
        (world.left().resent(), world.right().arrivals().duplicates),
        (0, 0)
    );
}

#[test]
fn flow_window_opens_as_packets_are_acknowledged() {
    let delay = Duration::from_millis(50);
    let (world, heard) = run(config(1_460_000, delay), &gigabit(delay), 1);
    assert_whole(&world, &heard, 1_460_000);
    // windows of 1, 1, 2, 4 .. 512 packets, each taking a round trip and at most a SYN interval
    let took = world.now().as_secs_f64();
    assert!((1.1..1.3).contains(&took), "{took} s");
}

#[test]
fn small_objects_are_transferred() {
    let delay = Duration::from_millis(5);
    for object_len in [0, 1, 1459, 1460, 1461] {
        let (world, heard) = run(config(object_len, delay), &gigabit(delay), 1);
        assert_whole(&world, &heard, object_len);
    }
}

#[test]
fn same_seed_gives_same_events() {
    let delay = Duration::from_millis(50);
    let mut world = gigabit(delay);
    world.there.loss_ppb = 20_000_000;
    let twins: Vec<_> = [7, 7, 8]
        .map(|seed| {
            let (world, heard) = run(config(5_000_000, delay), &world, seed);
            (world.now(), world.left().sent(), heard)
        })
        .into();
    assert_eq!(twins[0], twins[1]);
    assert_ne!(twins[0], twins[2]);
}

#[test]
fn broken_path_is_barren_until_traffic_is_diverted() {
    let delay = Duration::from_millis(5);
    let mut path = gigabit(delay);
    path.there.loss_ppb = 1_000_000_000;
    let config = config(100_000, delay);
    let sender = Sender::new(Instant::ZERO, config, 1);
    let mut world = Simulation::new(sender, Receiver::new(Instant::ZERO, config, 1), &path, 1);
    let mut barren = 0;
    let till = Instant::from_nanos(2_000_000_000);
    world.run(till, |_, event| {
        barren += u32::from(event == FlowEvent::Left(SenderEvent::Barren));
    });
    assert!((5..10).contains(&barren), "{barren} times");
}

#[test]
fn unlimited_rate_ignores_pacing_and_loss() {
    let delay = Duration::from_millis(5);
    let mut config = config(5_000_000, delay);
    config.memory.rate = Rate::UNLIMITED;
    let mut world = gigabit(delay);
    world.there.rate = None;
    let (world, heard) = run(config, &world, 1);
    assert_whole(&world, &heard, 5_000_000);
    assert!(world.now() < Instant::from_nanos(30_000_000));
}

#[test]
fn full_backlog_stops_and_empty_backlog_resumes_the_sender() {
    let delay = Duration::from_millis(5);
    let config = config(5_000_000, delay);
    let sender = Sender::new(Instant::ZERO, config, 1);
    let receiver = Receiver::new(Instant::ZERO, config, 1);
    let mut world = Simulation::new(sender, receiver, &gigabit(delay), 1);
    let load = |backlog_bytes| Load {
        backlog_bytes,
        backlog_bytes_max: 100,
        ..Load::default()
    };
    let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
    world.run(at(40), |_, _| ());
    world.handle_load(at(40), load(51), |_, _| ());
    world.run(at(50), |_, _| ());
    let sent = world.left().sent();
    assert!(world.left().is_held());
    world.run(at(1500), |_, event| {
        assert_ne!(event, FlowEvent::Left(SenderEvent::Barren));
    });
    assert_eq!(world.left().sent(), sent);
    world.handle_load(at(1500), load(24), |_, _| ());
    world.run(at(3000), |_, _| ());
    assert_eq!(world.left().missing(), 0);
}

#[test]
fn next_object_starts_with_the_learned_state() {
    let delay = Duration::from_millis(20);
    let mut path = gigabit(delay);
    path.there.rate = Some(Rate::from_mbps(100));
    for mode in [Mode::Paper, Mode::Swift] {
        let first = Config {
            mode,
            memory: Memory::new(Rate::from_mbps(5), delay * 2),
            ..config(80_000_000, delay)
        };
        let (world, heard) = run(first, &path, 1);
        assert_whole(&world, &heard, 80_000_000);
        let memory = world.left().memory();
        assert!(memory.rate > Rate::from_mbps(50), "{memory:?}");
        assert!(memory.rtt >= delay * 2, "{memory:?}");
        let second = Config { memory, ..first };
        let (again, _) = run(second, &path, 2);
        assert!(again.now() < world.now(), "{mode:?} learnt nothing");
    }
}

/// Returns the second mode on a path of 500 Mb/s, as a copy starts it: from half of the rate, and up to twice of it.
fn as_in_a_copy(object_len: u64, delay: Duration) -> Config {
    let rate = Rate::from_mbps(500);
    let packets = rate.bytes_in((Duration::from_millis(10) + delay * 2) * 2) / 1460;
    Config {
        mode: Mode::Swift,
        memory: Memory::measured(rate, delay * 2),
        rate_max: rate.scaled(2, 1),
        window_max: packets as u32,
        ..config(object_len, delay)
    }
}

#[test]
fn second_mode_fills_a_dedicated_path_despite_random_loss() {
    let delay = Duration::from_millis(50);
    let mut path = gigabit(delay);
    path.there.rate = Some(Rate::from_mbps(500));
    for (loss_ppb, least) in [(0, 0.92), (3_000_000, 0.88), (20_000_000, 0.82)] {
        path.there.loss_ppb = loss_ppb;
        let config = as_in_a_copy(200_000_000, delay);
        let (world, heard) = run(config, &path, 1);
        assert_whole(&world, &heard, 200_000_000);
        let wire = (200_000_000 + config.framing.packets() * 40) as f64 * 8.0;
        let share = wire / world.now().as_secs_f64() / 500e6;
        assert!(share > least, "{share} at {loss_ppb}");
    }
}

#[test]
fn start_up_ends_at_the_measured_rate() {
    let delay = Duration::from_millis(50);
    let mut path = gigabit(delay);
    path.there.rate = Some(Rate::from_mbps(500));
    // a twentieth of the path's product: a start-up that went on would lose a third of a round trip
    path.there.queue_bytes_max = 300_000;
    let config = as_in_a_copy(50_000_000, delay);
    let (world, heard) = run(config, &path, 1);
    assert_whole(&world, &heard, 50_000_000);
    let (resent, sent) = (world.left().resent(), world.left().sent());
    assert!(resent * 100 < sent, "{resent} of {sent}");
}

#[test]
fn next_object_begins_when_the_packets_of_the_previous_are_sent() {
    let config = config(1_460_000, Duration::from_millis(50));
    let first = Sender::new(Instant::ZERO, config, 1);
    let memory = first.memory();
    // 1000 packets at 500 Mb/s, without their headers
    assert_eq!(memory.busy, Duration::from_micros(23_360));
    let mut next = Sender::new(Instant::ZERO, Config { memory, ..config }, 1);
    let mut sent_at = |nanos| next.poll_transmit(Instant::from_nanos(nanos)).is_some();
    assert!(!sent_at(23_359_000));
    assert!(sent_at(23_360_000));
}

#[test]
fn differing_object_lengths_fail() {
    let delay = Duration::from_millis(5);
    let sender = Sender::new(Instant::ZERO, config(20_000, delay), 1);
    let receiver = Receiver::new(Instant::ZERO, config(10_000, delay), 1);
    let mut world = Simulation::new(sender, receiver, &gigabit(delay), 1);
    let mut failed = false;
    world.run(Instant::from_nanos(10_000_000_000), |_, event| {
        let beyond = |why| matches!(why, PeerMisbehaved::SentBeyond(_));
        failed |= matches!(event, FlowEvent::Right(ReceiverEvent::Failed(why)) if beyond(why));
    });
    assert!(failed);
}

/// Returns endless flows over one link. Its queue holds the product of rate and longest round-trip time.
fn crowd(
    mode: Mode,
    mbps: u64,
    window: u32,
    flows: &[(u64, u64, u64)],
) -> Network<Sender, Receiver> {
    let rate = Rate::from_mbps(mbps);
    let rtt_max = flows.iter().map(|(rtt, ..)| *rtt).max().unwrap();
    let product = rate.bytes_in(Duration::from_millis(rtt_max));
    let link = LinkConfig {
        rate: Some(rate),
        queue_bytes_max: product.max(15_000),
        ..LinkConfig::default()
    };
    let mut network = Network::new([link], 1);
    for (nth, (rtt, start_s, start_mbps)) in (0..).zip(flows) {
        let rtt = Duration::from_millis(*rtt);
        let start = Instant::from_nanos(start_s * 1_000_000_000 + nth * 1_234_567);
        let packets = rate.bytes_in(rtt + Duration::from_millis(10)) / 1500;
        let config = Config {
            mode,
            memory: Memory::new(Rate::from_mbps(*start_mbps), rtt),
            rate_max: Rate::UNLIMITED,
            window_max: packets.max(10) as u32 * window,
            ..config(1 << 40, rtt / 2)
        };
        let flow = FlowConfig {
            start,
            there: RouteConfig {
                access: rtt / 2,
                links: vec![0],
            },
            stream_delay: rtt / 2,
            overhead_len: 28,
            ..FlowConfig::default()
        };
        let (left, right) = (
            Sender::new(start, config, 1),
            Receiver::new(start, config, 1),
        );
        network.add(left, right, &flow);
    }
    network
}

fn trace(network: &mut Network<Sender, Receiver>, seconds: u64) -> Trace {
    let till = Instant::from_nanos(seconds * 1_000_000_000);
    Trace::run(network, Duration::from_secs(1), till)
}

/// Returns the share of the link's rate that the flows used in the last twenty seconds.
fn utilization(trace: &Trace, flows: usize, mbps: u64, seconds: u64) -> f64 {
    let (from, till) = ending(seconds);
    let goodput = |nth| trace.goodput(nth, from, till).as_mbps_f64();
    let sum: f64 = (0..flows).map(goodput).sum();
    // 1500 bytes on the wire carry 1460 bytes of the object
    sum * 1500.0 / 1460.0 / mbps as f64
}

fn ending(seconds: u64) -> (Instant, Instant) {
    let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
    (at(seconds - 20), at(seconds))
}

#[test]
fn path_is_used_at_any_rate_and_length() {
    // the paper recommends this window for its mode; the second mode needs no tuned window
    for (mode, window) in [(Mode::Paper, 1), (Mode::Swift, 10)] {
        for (mbps, rtt) in [(10, 1), (10, 100), (10, 500), (100, 10), (100, 500)] {
            let mut network = crowd(mode, mbps, window, &[(rtt, 0, 1)]);
            let share = utilization(&trace(&mut network, 120), 1, mbps, 120);
            assert!(
                share >= 0.9,
                "{mode:?} uses {share} of {mbps} Mb/s at {rtt} ms"
            );
        }
    }
}

#[test]
fn swift_flows_share_a_queue_fairly() {
    for flows in [
        [(1, 0, 1), (10, 10, 1), (100, 20, 1)],
        [(10, 0, 1), (10, 0, 20), (10, 0, 80)],
    ] {
        let mut network = crowd(Mode::Swift, 100, 10, &flows);
        let trace = trace(&mut network, 120);
        let (from, till) = ending(120);
        let fairness = trace.fairness(from, till);
        assert!(fairness >= 0.98, "{fairness} for {flows:?}");
    }
}

#[test]
fn same_seed_gives_identical_network_run() {
    let flows = [(10, 0, 1), (50, 1, 10), (1, 2, 5)];
    let csv = |_| trace(&mut crowd(Mode::Paper, 50, 10, &flows), 10).to_csv();
    let [first, second] = [0, 1].map(csv);
    assert_eq!(first, second);
}

#[test]
fn swift_mode_tolerates_random_loss() {
    let delay = Duration::from_millis(50);
    let mut world = gigabit(delay);
    world.there.rate = Some(Rate::from_mbps(200));
    world.there.loss_ppb = 1_000_000;
    let config = Config {
        mode: Mode::Swift,
        memory: Memory::new(Rate::from_mbps(10), delay * 2),
        ..config(500_000_000, delay)
    };
    let (world, heard) = run(config, &world, 1);
    assert_whole(&world, &heard, 500_000_000);
    let goodput = 500_000_000.0 * 8.0 / world.now().as_secs_f64() / 1e6;
    assert!(goodput > 160.0, "{goodput} Mb/s");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn every_byte_is_placed_once_on_any_path(
        (object_len, packet_len) in any_object(),
        mbps in (1_u64..200, 1_u64..2_000),
        path in any_path(),
        bounds in (1_u32..5000, 1_u32..1000),
        swift: bool,
        seed: u64,
    ) {
        let delay = path.stream_delay;
        let config = Config {
            framing: Framing {
                packet_len,
                ..config(object_len, delay).framing
            },
            mode: if swift { Mode::Swift } else { Mode::Paper },
            memory: Memory::new(Rate::from_mbps(mbps.0), delay * 2),
            rate_max: Rate::from_mbps(mbps.1),
            window_max: bounds.0,
            ranges_max: bounds.1,
            ..config(object_len, delay)
        };
        let (world, heard) = run(config, &path, seed);
        assert_whole(&world, &heard, object_len);
        let (left, right) = (world.left(), world.right());
        let seen = world.there().counters();
        prop_assert_eq!(left.sent(), seen.offered.packets);
        prop_assert_eq!(left.sent(), config.framing.packets() + left.resent());
        prop_assert_eq!(right.received(), config.framing.packets());
        prop_assert_eq!(left.ignored(), 0);
    }
}
