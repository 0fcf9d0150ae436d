//! VBTP transfer under observation.

use std::time::Duration;

use lighthaul_base::{Deadline, Endpoint, Instant, Load, Message, Rate, Span, Transmit, Trc, Via};
use lighthaul_proto::vbtp::{Config, Framing, Receiver, ReceiverEvent, Sender, SenderEvent};
use lighthaul_sim::{FlowEvent, PathConfig, Simulation};

use crate::path::gigabit;

pub(crate) const RTT: Duration = Duration::from_millis(100);
pub(crate) const OVERHEAD_LEN: u32 = 28;
pub(crate) const FOUR_STEPS: &str =
    "0s-500ms 400Mb/s, 500ms-1s 900Mb/s, 1s-1500ms 200Mb/s, 1500ms-3s 600Mb/s";

pub(crate) fn config(object_len: u64) -> Config {
    Config {
        framing: Framing {
            object_len,
            packet_len: 1464,
            overhead_len: OVERHEAD_LEN,
        },
        stream: 1,
        burst: None,
        share: (1, 1),
        rtt: RTT,
        settle: Duration::from_millis(2),
        ack_every: Duration::from_millis(10),
        window: 1 << 17,
        block: 128,
        losses_max: 1 << 14,
    }
}

/// Machine with a record of the data that it sends on the circuit, and with lost arrivals.
#[derive(Debug)]
pub(crate) struct Watched<E> {
    pub(crate) machine: E,
    /// Times and bytes on the wire of datagrams sent on the circuit.
    pub(crate) sent: Vec<(Instant, u32)>,
    /// Times and bytes of object data sent on the stream.
    pub(crate) pieces: Vec<(Instant, u32)>,
    /// Time of the latest arrival of a datagram.
    pub(crate) came: Instant,
    /// Period in which arriving datagrams are lost.
    pub(crate) deaf: std::ops::Range<Instant>,
}

impl<E> Watched<E> {
    pub(crate) fn new(machine: E) -> Self {
        Self {
            machine,
            sent: Vec::new(),
            pieces: Vec::new(),
            came: Instant::ZERO,
            deaf: Instant::NEVER..Instant::NEVER,
        }
    }

    /// Returns the bytes sent on the circuit between two times.
    pub(crate) fn sent_between(&self, from: Instant, till: Instant) -> u64 {
        let within = |at: &Instant| *at >= from && *at < till;
        let sent = self.sent.iter().filter(|(at, _)| within(at));
        sent.map(|(_, bytes)| u64::from(*bytes)).sum()
    }
}

impl<E: Endpoint> Endpoint for Watched<E> {
    type Event = E::Event;

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        if message.via == Via::Datagram {
            if self.deaf.contains(&now) {
                return None;
            }
            self.came = now;
        }
        self.machine.handle_message(now, message)
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.machine.handle_timeout(now);
    }

    fn handle_load(&mut self, now: Instant, load: Load) {
        self.machine.handle_load(now, load);
    }

    fn handle_rate(&mut self, now: Instant, rate: Rate) {
        self.machine.handle_rate(now, rate);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let transmit = self.machine.poll_transmit(now)?;
        let len = transmit.body.object_len();
        if transmit.via == Via::Datagram {
            let head = transmit.head.as_slice().len() as u32;
            self.sent.push((now, OVERHEAD_LEN + head + len));
        } else if len > 0 {
            self.pieces.push((now, len));
        }
        Some(transmit)
    }

    fn poll_event(&mut self) -> Option<E::Event> {
        self.machine.poll_event()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.machine.poll_timeout()
    }

    fn upcoming(&self, offset: u64, len: u32) -> Option<Span> {
        self.machine.upcoming(offset, len)
    }
}

pub(crate) type Pair = Simulation<Watched<Sender>, Watched<Receiver>>;
pub(crate) type Event = FlowEvent<SenderEvent, ReceiverEvent>;

/// Transfer, its vector, and the times of its events.
pub(crate) struct Run {
    pub(crate) world: Pair,
    pub(crate) heard: Vec<(Instant, Event)>,
}

impl Run {
    pub(crate) fn new(config: Config, trc: &Trc, loss_ppb: u64, seed: u64) -> Self {
        Self::through(config, trc, &circuit(loss_ppb), seed)
    }

    pub(crate) fn through(config: Config, trc: &Trc, world: &PathConfig, seed: u64) -> Self {
        let sender = Watched::new(Sender::new(Instant::ZERO, config, trc.clone(), seed));
        let receiver = Watched::new(Receiver::new(Instant::ZERO, config, seed));
        Self::between(sender, receiver, world, seed)
    }

    pub(crate) fn between(
        left: Watched<Sender>,
        right: Watched<Receiver>,
        world: &PathConfig,
        seed: u64,
    ) -> Self {
        let mut world = Simulation::new(left, right, world, seed).with_ledger();
        let mut heard = Vec::new();
        world.run(Instant::from_nanos(u64::MAX / 2), |now, event| {
            heard.push((now, event));
        });
        Self { world, heard }
    }

    pub(crate) fn when(&self, wanted: impl Fn(&Event) -> bool) -> Instant {
        let found = self.heard.iter().find(|(_, event)| wanted(event));
        found.map_or_else(|| panic!("{:?}", self.heard), |(at, _)| *at)
    }

    pub(crate) fn received(&self) -> Instant {
        self.when(|event| *event == FlowEvent::Right(ReceiverEvent::Complete))
    }

    pub(crate) fn released(&self) -> Instant {
        self.when(|event| matches!(event, FlowEvent::Left(SenderEvent::Released { .. })))
    }

    pub(crate) fn assert_whole(&self, config: &Config) {
        assert!(
            self.world
                .ledger()
                .unwrap()
                .is_whole(config.framing.object_len)
        );
        let (left, right) = (&self.world.left().machine, &self.world.right().machine);
        assert!(
            self.heard
                .iter()
                .any(|(_, event)| *event == FlowEvent::Left(SenderEvent::Complete))
        );
        assert!(
            self.heard
                .iter()
                .any(|(_, event)| *event == FlowEvent::Right(ReceiverEvent::Complete))
        );
        assert_eq!((left.ignored(), right.arrivals().ignored), (0, 0));
        assert_eq!(left.missing(), 0);
    }

    /// Asserts that a policer with the vector's rates and a bucket of `burst_max` bytes drops nothing.
    pub(crate) fn assert_policed(&self, trc: &Trc, burst_max: u64) {
        const WORK: u128 = 8_000_000_000;
        let (mut seen, mut tokens) = (Instant::ZERO, u128::from(burst_max) * WORK);
        for (at, bytes) in &self.world.left().sent {
            tokens = (tokens + trc.work_between(seen, *at)).min(u128::from(burst_max) * WORK);
            seen = *at;
            let bytes = u128::from(*bytes) * WORK;
            assert!(trc.rate_at(*at).is_some(), "{at}: nothing may leave");
            assert!(bytes <= tokens, "{at}: the policer drops it");
            tokens -= bytes;
        }
    }
}

/// Returns a circuit of 1 Gb/s without loss on its streams.
pub(crate) fn circuit(loss_ppb: u64) -> PathConfig {
    let mut path = gigabit(RTT / 2);
    path.there.queue_bytes_max = 256 << 10;
    path.there.loss_ppb = loss_ppb;
    path.stream_rate = path.there.rate;
    path
}

pub(crate) fn millis(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

pub(crate) fn steps(text: &str) -> Trc {
    text.parse().unwrap()
}

/// Returns the parameters of an object that fills `trc` except for a margin.
pub(crate) fn filling(trc: &Trc, margin_percent: u64) -> Config {
    let wire = trc.bytes_between(trc.start(), trc.end()) * 100 / (100 + margin_percent);
    let config = config(wire * 1464 / 1500);
    assert!(
        config.booked_bytes(margin_percent as u32)
            <= trc.bytes_between(trc.start(), trc.end()) + 3000
    );
    config
}
