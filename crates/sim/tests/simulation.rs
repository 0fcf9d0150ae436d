//! The simulated world keeps the rules of the `Endpoint` contract, and delivers messages at exact times.

use std::collections::VecDeque;
use std::time::Duration;

use lighthaul_base::{Body, Deadline, Endpoint, Head, Instant, Message, Rate, Span, Transmit, Via};
use lighthaul_sim::{FlowEvent, HostConfig, LinkConfig, PathConfig, Simulation};

/// Test endpoint that sends each planned message at its time, and reports received messages with the time of arrival.
#[derive(Debug, Default)]
struct Toy {
    plan: VecDeque<(u64, Via, u8, u32)>,
    arrived: VecDeque<(u64, Via, u8)>,
}

impl Endpoint for Toy {
    type Event = (u64, Via, u8);

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        self.arrived
            .push_back((now.as_nanos(), message.via, message.head[0]));
        (message.len > 0).then(|| Span::new(u64::from(message.head[0]) * 1000, message.len))
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let (at, via, head, len) = *self.plan.front()?;
        if now.as_nanos() < at {
            return None;
        }
        self.plan.pop_front();
        let body = match len {
            0 => Body::None,
            _ => Body::Object(Span::new(u64::from(head) * 1000, len)),
        };
        Some(Transmit {
            via,
            head: Head::new(&[head]),
            body,
        })
    }

    fn poll_event(&mut self) -> Option<Self::Event> {
        self.arrived.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let (at, ..) = self.plan.front()?;
        Some(Deadline {
            at: Instant::from_nanos(*at),
            why: "plan",
        })
    }
}

const STREAM: Via = Via::Stream(3);

fn run(plan: &[(u64, Via, u8, u32)], config: &PathConfig) -> Vec<(u64, Via, u8)> {
    let left = Toy {
        plan: plan.iter().copied().collect(),
        ..Toy::default()
    };
    let mut world = Simulation::new(left, Toy::default(), config, 1).with_ledger();
    let mut heard = Vec::new();
    let end = world.run(Instant::from_nanos(1_000_000_000), |now, event| {
        if let FlowEvent::Right(event) = event {
            assert_eq!(now.as_nanos(), event.0);
            heard.push(event);
        }
    });
    assert_eq!(end, world.now());
    heard
}

fn config() -> PathConfig {
    PathConfig {
        there: LinkConfig {
            rate: Some(Rate::from_mbps(8)),
            delay: Duration::from_micros(10),
            ..LinkConfig::default()
        },
        stream_delay: Duration::from_micros(5),
        stream_rate: Some(Rate::from_mbps(80)),
        overhead_len: 28,
        ..PathConfig::default()
    }
}

#[test]
fn datagrams_use_the_link_and_messages_the_stream() {
    let plan = [
        (0, Via::Datagram, 1, 971),
        (0, STREAM, 2, 0),
        (7_000, Via::Datagram, 3, 471),
        (7_000, STREAM, 4, 95),
    ];
    let heard = run(&plan, &config());
    // 1000 and 500 bytes take a microsecond each; frames of 5 and 100 bytes run at ten times that rate
    let expected = [
        (5_500, STREAM, 2),
        (22_000, STREAM, 4),
        (1_010_000, Via::Datagram, 1),
        (1_510_000, Via::Datagram, 3),
    ];
    assert_eq!(heard, expected);
}

#[test]
fn slow_host_receives_late() {
    let host = HostConfig {
        absorb: Some(Rate::from_mbps(4)),
        socket_bytes_max: 2_000,
        ..HostConfig::default()
    };
    let plan = [(0, Via::Datagram, 1, 971), (0, Via::Datagram, 2, 971)];
    let heard = run(&plan, &PathConfig { host, ..config() });
    let expected = [(3_010_000, Via::Datagram, 1), (5_010_000, Via::Datagram, 2)];
    assert_eq!(heard, expected);
}

#[test]
fn simulation_stops_at_requested_time() {
    let left = Toy {
        plan: [(50, STREAM, 1, 0), (200, STREAM, 2, 0)].into(),
        ..Toy::default()
    };
    let mut world = Simulation::new(left, Toy::default(), &PathConfig::default(), 1);
    let mut heard = 0;
    assert_eq!(
        world.run(Instant::from_nanos(100), |_, _| heard += 1),
        Instant::from_nanos(100)
    );
    assert_eq!(heard, 1);
}

#[test]
#[should_panic(expected = "placed twice")]
fn body_placed_twice_panics() {
    run(
        &[(0, Via::Datagram, 1, 971), (0, Via::Datagram, 1, 971)],
        &config(),
    );
}
