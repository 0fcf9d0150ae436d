//! Stripe machines over streams of different rates, some of which break: every byte arrives once, and no stream waits
//! for the slowest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lighthaul_base::{Body, Endpoint, Instant, Message, Rate, Span, Transmit, Via};
use lighthaul_proto::stripe::{
    Config, PacketLayout, PeerMisbehaved, Receiver, ReceiverEvent, Sender, SenderEvent, Width, wire,
};
use proptest::prelude::*;

const PACKET: u32 = 1000;
/// Stream of the receiver's messages.
const FIRST: u16 = 2;
/// Bytes that a stream accepts before it has no room.
const WINDOW: u64 = 4000;

/// Stream with a rate in bytes per millisecond, which may break.
#[derive(Clone, Copy, Debug)]
struct Line {
    rate: u64,
    delay: Duration,
    breaks: Option<Instant>,
}

/// Both machines, and the streams between them.
struct TestNetwork {
    now: Instant,
    lines: Vec<Line>,
    /// Time at which each stream has sent its data.
    free: Vec<Instant>,
    broken: Vec<bool>,
    /// Messages in flight, by the time of arrival.
    coming: BTreeMap<(Instant, u64), Transmit>,
    next: u64,
    sender: Sender,
    receiver: Receiver,
    placed: BTreeSet<u64>,
    heard: Vec<SenderEvent>,
}

impl TestNetwork {
    fn new(object_len: u64, lines: &[Line], width: Width) -> Self {
        let config = config(object_len, lines.len() as u16);
        Self {
            now: Instant::ZERO,
            lines: lines.to_vec(),
            free: vec![Instant::ZERO; lines.len()],
            broken: vec![false; lines.len()],
            coming: BTreeMap::new(),
            next: 0,
            sender: Sender::new(Instant::ZERO, config, width),
            receiver: Receiver::new(Instant::ZERO, config),
            placed: BTreeSet::new(),
            heard: Vec::new(),
        }
    }

    /// Runs until the sender knows that the object is complete.
    fn run(mut self) -> Self {
        for _ in 0..4_000_000 {
            self.break_off();
            self.drain();
            if self.heard.contains(&SenderEvent::Complete) {
                return self;
            }
            let next = self.coming.keys().next().map(|(at, _)| *at);
            let tick = self.now + Duration::from_micros(100);
            self.now = next.unwrap_or(tick).min(tick).max(self.now);
            self.deliver();
        }
        panic!("it never ended: {:?}", self.heard);
    }

    fn break_off(&mut self) {
        for (index, line) in self.lines.iter().enumerate() {
            if line.breaks.is_some_and(|at| at <= self.now) && !self.broken[index] {
                self.broken[index] = true;
                let via = Via::Stream(FIRST + 1 + index as u16);
                // data in flight is lost
                self.coming.retain(|_, transmit| transmit.via != via);
                let stream = FIRST + 1 + index as u16;
                if line.delay.as_millis().is_multiple_of(2) {
                    self.sender.handle_broken(self.now, stream);
                }
                // or only the receiver notices
                self.receiver.handle_broken(self.now, stream);
            }
        }
    }

    fn drain(&mut self) {
        loop {
            // the first stream always has room, and must not be used while others work
            self.sender.handle_room(self.now, FIRST);
            for (index, line) in self.lines.iter().enumerate() {
                let backlog = self.free[index].since(self.now).as_micros() as u64;
                if !self.broken[index] && backlog * line.rate / 1000 < WINDOW {
                    self.sender.handle_room(self.now, FIRST + 1 + index as u16);
                }
            }
            let Some(transmit) = self.sender.poll_transmit(self.now) else {
                break;
            };
            self.give(transmit);
        }
        while let Some(transmit) = self.receiver.poll_transmit(self.now) {
            let at = self.now + Duration::from_millis(10);
            self.coming.insert((at, self.next), transmit);
            self.next += 1;
        }
        while self.receiver.poll_event() == Some(ReceiverEvent::Complete) {}
        while let Some(event) = self.sender.poll_event() {
            self.heard.push(event);
        }
    }

    fn give(&mut self, transmit: Transmit) {
        let Via::Stream(stream) = transmit.via else {
            panic!("a datagram was sent");
        };
        let at = if stream == FIRST {
            assert!(self.broken.iter().all(|broken| *broken));
            self.now + Duration::from_millis(1)
        } else {
            let index = usize::from(stream - FIRST - 1);
            let line = self.lines[index];
            if self.broken[index] {
                assert!(!line.delay.as_millis().is_multiple_of(2), "it was told");
                return;
            }
            let begin = self.free[index].max(self.now);
            let time = Duration::from_micros(u64::from(PACKET) * 1000 / line.rate);
            self.free[index] = begin + time;
            begin + time + line.delay
        };
        self.coming.insert((at, self.next), transmit);
        self.next += 1;
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.coming.first_entry()
            && entry.key().0 <= self.now
        {
            let transmit = entry.remove();
            let span = match transmit.body {
                Body::Object(span) => span,
                Body::None | Body::Octets(_) => Span::default(),
            };
            let message = Message {
                via: transmit.via,
                head: transmit.head.as_slice(),
                len: span.len,
            };
            if span.len == 0 {
                self.sender.handle_message(self.now, message);
            } else if let Some(place) = self.receiver.handle_message(self.now, message) {
                assert_eq!(place, span);
                assert!(self.placed.insert(place.offset), "a byte came twice");
            }
        }
    }
}

fn config(object_len: u64, streams: u16) -> Config {
    Config {
        layout: PacketLayout {
            object_len,
            packet_len: PACKET,
        },
        rate: Rate::UNLIMITED,
        stream: FIRST,
        streams,
    }
}

fn line(rate: u64) -> Line {
    Line {
        rate,
        delay: Duration::from_millis(20),
        breaks: None,
    }
}

fn fixed(lines: &[Line]) -> Width {
    Width::fixed(lines.len() as u16)
}

#[test]
fn slow_stream_does_not_delay_the_transfer() {
    // 300 and 1 bytes per millisecond: with half of the object each, the slow stream would take 1000 s
    let lines = [line(100), line(100), line(100), line(1)];
    let world = TestNetwork::new(2_000_000, &lines, fixed(&lines)).run();
    assert_eq!(world.placed.len(), 2000);
    let took = world.now.as_secs_f64();
    // the time at the total rate, and of the first data on the slow stream
    let most = 2_000_000.0 / 301e3 + WINDOW as f64 / 1e3 + 2.0;
    assert!(took < most, "{took} s, not {most}");
    assert_eq!((world.sender.resent(), world.receiver.duplicates()), (0, 0));
}

#[test]
fn packets_of_a_broken_stream_are_resent_on_other_streams() {
    let mut lines = [line(100), line(100), line(100)];
    lines[1].breaks = Some(Instant::ZERO + Duration::from_secs(1));
    let world = TestNetwork::new(600_000, &lines, fixed(&lines)).run();
    assert_eq!(world.placed.len(), 600);
    let had = world.sender.resent();
    assert!((1..200).contains(&had), "{had}");
}

#[test]
fn first_stream_takes_over_when_all_other_streams_break() {
    let breaks = Some(Instant::ZERO + Duration::from_millis(300));
    let lines = [100, 50].map(|rate| Line {
        breaks,
        ..line(rate)
    });
    let world = TestNetwork::new(100_000, &lines, fixed(&lines)).run();
    assert_eq!(world.placed.len(), 100);
    let alone = TestNetwork::new(100_000, &[], Width::fixed(0)).run();
    assert_eq!(alone.placed.len(), 100);
}

#[test]
fn small_objects_are_transferred() {
    for object_len in [0, 1, 999, 1000, 1001] {
        let lines = [line(100), line(10)];
        let world = TestNetwork::new(object_len, &lines, fixed(&lines)).run();
        let packets = object_len.div_ceil(PACKET.into());
        assert_eq!(world.placed.len() as u64, packets, "{object_len}");
        let asked = world.heard.contains(&SenderEvent::Asked { round: 1 });
        assert!(asked, "{:?}", world.heard);
    }
}

#[test]
fn rate_limit_is_kept() {
    let rate = Rate::from_mbps(8);
    let with = |rate| Config {
        rate,
        ..config(500_000, 1)
    };
    let lines = [line(1000)];
    let mut world = TestNetwork::new(500_000, &lines, fixed(&lines));
    world.sender = Sender::new(Instant::ZERO, with(rate), fixed(&lines));
    let took = world.run().now.as_secs_f64();
    assert!((0.5..0.56).contains(&took), "{took} s");
}

#[test]
fn premature_completion_report_fails_the_transfer() {
    let mut sender = Sender::new(Instant::ZERO, config(10_000, 1), Width::fixed(1));
    let say = |sender: &mut Sender, via| {
        let whole = wire::whole(FIRST);
        let head = whole.head.as_slice();
        let message = Message { via, head, len: 0 };
        sender.handle_message(Instant::ZERO, message);
    };
    // a report on another stream has no effect
    say(&mut sender, Via::Stream(FIRST + 1));
    say(&mut sender, Via::Datagram);
    assert_eq!(sender.ignored(), 2);
    assert!(matches!(
        sender.poll_event(),
        Some(SenderEvent::Round { .. })
    ));
    say(&mut sender, Via::Stream(FIRST));
    let why = PeerMisbehaved::WholeTooEarly;
    assert_eq!(sender.poll_event(), Some(SenderEvent::Failed(why)));
    sender.handle_room(Instant::ZERO, FIRST + 1);
    assert_eq!(sender.poll_transmit(Instant::ZERO), None);
}

#[test]
fn invalid_packets_are_dropped() {
    let mut receiver = Receiver::new(Instant::ZERO, config(10_500, 2));
    let mut take = |via, number, len| {
        let message = wire::StripeMessage::Packet { number };
        let head = message.encode();
        let head = head.as_slice();
        receiver.handle_message(Instant::ZERO, Message { via, head, len })
    };
    for (via, number, len) in [
        (Via::Datagram, 0, PACKET),
        (Via::Stream(FIRST + 3), 0, PACKET),
        (Via::Stream(FIRST), 11, 500),
        (Via::Stream(FIRST), u64::MAX, PACKET),
        (Via::Stream(FIRST), 0, PACKET - 1),
        (Via::Stream(FIRST), 10, PACKET),
    ] {
        assert_eq!(take(via, number, len), None, "{via:?} {number} {len}");
    }
    let last = take(Via::Stream(FIRST + 2), 10, 500);
    assert_eq!(last, Some(Span::new(10_000, 500)));
    assert_eq!(take(Via::Stream(FIRST + 1), 10, 500), None);
    assert_eq!((receiver.ignored(), receiver.duplicates()), (6, 1));
    assert_eq!(receiver.received(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_byte_arrives_once_with_any_broken_streams(
        object_len in 0_u64..300_000,
        lines in prop::collection::vec((1_u64..200, 0_u64..50, prop::option::of(0_u64..2000)), 0..9),
        measured: bool,
    ) {
        let lines: Vec<_> = lines
            .into_iter()
            .map(|(rate, delay, breaks)| Line {
                rate,
                delay: Duration::from_millis(delay),
                breaks: breaks.map(|at| Instant::ZERO + Duration::from_millis(at)),
            })
            .collect();
        let width = if measured {
            Width::measured(lines.len() as u16, Duration::from_millis(20))
        } else {
            fixed(&lines)
        };
        let world = TestNetwork::new(object_len, &lines, width).run();
        let last = world.placed.last().copied().unwrap_or(0);
        prop_assert_eq!(world.placed.len() as u64, object_len.div_ceil(PACKET.into()));
        prop_assert!(last < object_len.max(1));
        let broke = lines.iter().filter(|line| line.breaks.is_some()).count();
        prop_assert!(usize::from(world.sender.round()) <= 1 + broke);
    }
}
