//! Cost of the VBTP machines per datagram, for comparison with RBUDP in `rbudp.rs`.
#![expect(clippy::print_stdout, reason = "a report")]
#![expect(clippy::disallowed_types, reason = "measures itself, not a transfer")]
#![expect(clippy::disallowed_methods, reason = "measures itself, not a transfer")]

use std::hint::black_box;
use std::time::{Duration, Instant as Stopwatch};

use lighthaul_base::trc::Step;
use lighthaul_base::{Body, Endpoint, Instant, Message, Rate, Trc, Via};
use lighthaul_proto::vbtp::{Config, Framing, Receiver, Sender};

fn main() {
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    // one datagram in this many is lost
    for lost in [u64::MAX, 100] {
        machines(lost);
    }
}

/// Runs both machines back to back at 10 Gb/s, without a simulated network.
fn machines(lost: u64) {
    let config = Config {
        framing: Framing {
            object_len: 10_000_000_000,
            packet_len: 1464,
            overhead_len: 28,
        },
        stream: 0,
        burst: None,
        share: (1, 1),
        rtt: Duration::from_millis(100),
        settle: Duration::from_millis(1),
        ack_every: Duration::from_millis(10),
        window: 1 << 20,
        block: 128,
        losses_max: 1 << 14,
    };
    let step = Step {
        from: Instant::ZERO,
        till: Instant::from_nanos(100_000_000_000),
        rate: Rate::from_mbps(10_000),
    };
    let trc = Trc::new(vec![step]).expect("a step is a vector");
    let mut sender = Sender::new(Instant::ZERO, config, trc, 1);
    let mut receiver = Receiver::new(Instant::ZERO, config, 1);
    let (mut now, mut sent) = (Instant::ZERO, 0);
    let watch = Stopwatch::now();
    while sender.missing() > 0 {
        while let Some(transmit) = sender.poll_transmit(now) {
            sent += 1;
            if transmit.via == Via::Datagram && sent % lost == 0 {
                continue;
            }
            hand(
                &mut receiver,
                now,
                transmit.via,
                transmit.head.as_slice(),
                &transmit.body,
            );
        }
        receiver.handle_timeout(now);
        while let Some(transmit) = receiver.poll_transmit(now) {
            hand(
                &mut sender,
                now,
                transmit.via,
                transmit.head.as_slice(),
                &transmit.body,
            );
        }
        while sender.poll_event().is_some() || receiver.poll_event().is_some() {}
        let due = [sender.poll_timeout(), receiver.poll_timeout()];
        let next = due.into_iter().flatten().map(|deadline| deadline.at).min();
        now = now.max(next.unwrap_or(now));
    }
    let nanos = watch.elapsed().as_nanos() as f64 / sender.sent() as f64;
    println!("both machines, one of {lost} lost: {nanos:.1} ns per datagram");
}

fn hand(machine: &mut impl Endpoint, now: Instant, via: Via, head: &[u8], body: &Body) {
    let mut octets;
    let (head, len) = match body {
        Body::None => (head, 0),
        Body::Object(span) => (head, span.len),
        Body::Octets(body) => {
            octets = head.to_vec();
            octets.extend(body);
            (&octets[..], 0)
        }
    };
    black_box(machine.handle_message(now, Message { via, head, len }));
}
