//! Cost of the RBUDP machines per datagram, alone and in the simulator.
#![expect(clippy::print_stdout, reason = "a report")]
#![expect(clippy::disallowed_types, reason = "measures itself, not a transfer")]
#![expect(clippy::disallowed_methods, reason = "measures itself, not a transfer")]

use std::hint::black_box;
use std::time::{Duration, Instant as Stopwatch};

use lighthaul_base::{Body, Endpoint, Instant, Message, Rate, Via};
use lighthaul_proto::rbudp::{Config, Framing, Receiver, Sender};
use lighthaul_sim::{LinkConfig, PathConfig, Simulation};

fn main() {
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    for rate in [Rate::UNLIMITED, Rate::from_mbps(10_000)] {
        machines(rate);
    }
    simulation();
}

fn config(rate: Rate) -> Config {
    Config {
        framing: Framing {
            object_len: 10_000_000_000,
            packet_len: 1464,
            overhead_len: 28,
        },
        rate,
        burst: None,
        stream: 0,
        settle: Duration::from_millis(1),
        repeat: Duration::ZERO,
        feedback: None,
    }
}

/// Runs both machines back to back, without a simulated network.
fn machines(rate: Rate) {
    let config = config(rate);
    let mut sender = Sender::new(Instant::ZERO, config, 1);
    let mut receiver = Receiver::new(Instant::ZERO, config, 1);
    let mut now = Instant::ZERO;
    let watch = Stopwatch::now();
    while receiver.received() < receiver.total() {
        while let Some(transmit) = sender.poll_transmit(now) {
            let len = match transmit.body {
                Body::Object(span) => span.len,
                Body::None | Body::Octets(_) => continue,
            };
            let (via, head) = (Via::Datagram, transmit.head.as_slice());
            black_box(receiver.handle_message(now, Message { via, head, len }));
        }
        now = now.max(sender.poll_timeout().map_or(now, |deadline| deadline.at));
    }
    let nanos = watch.elapsed().as_nanos() as f64 / receiver.total() as f64;
    println!("both machines at {rate}: {nanos:.1} ns per datagram");
}

/// Simulates 10 GB over 10 Gb/s, 100 ms and 0.1 % loss.
fn simulation() {
    let config = config(Rate::from_mbps(9_900));
    let delay = Duration::from_millis(50);
    let there = LinkConfig {
        rate: Some(Rate::from_mbps(10_000)),
        delay,
        queue_bytes_max: 1 << 20,
        loss_ppb: 1_000_000,
        ..LinkConfig::default()
    };
    let world = PathConfig {
        there,
        stream_delay: delay,
        overhead_len: 28,
        ..PathConfig::default()
    };
    let sender = Sender::new(Instant::ZERO, config, 1);
    let receiver = Receiver::new(Instant::ZERO, config, 1);
    let mut world = Simulation::new(sender, receiver, &world, 1);
    let watch = Stopwatch::now();
    let end = world.run(Instant::from_nanos(u64::MAX / 2), |_, _| ());
    let wall = watch.elapsed();
    let (left, nanos) = (
        world.left(),
        wall.as_nanos() as f64 / world.left().sent() as f64,
    );
    println!("10 GB in {} blasts and {end} of virtual time", left.round());
    println!(
        "simulated in {:.2} s, {nanos:.0} ns per datagram",
        wall.as_secs_f64()
    );
}
