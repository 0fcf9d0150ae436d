//! Two machines and the world between them, in virtual time.

use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::{
    Body, Deadline, Endpoint, Head, Instant, Load, Message, Rate, Rng, Span, Transmit, Via,
};

use crate::host::{Host, HostConfig};
use crate::ledger::Ledger;
use crate::link::{Link, LinkConfig, Verdict};
use crate::world::Agenda;

/// What lies between a left and a right machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorldConfig {
    /// Datagrams from left to right.
    pub there: LinkConfig,
    /// Datagrams from right to left.
    pub back: LinkConfig,
    /// One-way delay of streams, in both directions.
    pub stream_delay: Duration,
    /// The rate of streams, in each direction by itself.
    pub stream_rate: Option<Rate>,
    /// Bytes on the wire of a datagram beyond its head and body: IP, UDP, seal.
    pub overhead_len: u32,
    /// The host of the right machine.
    pub host: HostConfig,
}

/// Runs two machines over two links until nothing more will happen.
///
/// It moves lengths, not bytes: a body is known by the span it was taken from.
#[derive(Debug)]
pub struct World<L, R> {
    now: Instant,
    left: Seat<L>,
    right: Seat<R>,
    there: Path,
    back: Path,
    host: Host,
    /// Datagrams that the right host is busy with.
    inbox: Agenda<Datagram>,
    /// Messages that it will look at.
    letters: Agenda<StreamMessage>,
    ledger: Option<Ledger>,
    overhead_len: u32,
}

/// What an owner gets to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard<L, R> {
    /// From the left machine.
    Left(L),
    /// From the right machine.
    Right(R),
}

impl<L: Endpoint, R: Endpoint> World<L, R> {
    /// A world at its beginning; all chance descends from `seed`.
    pub fn new(left: L, right: R, config: &WorldConfig, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let stream = LinkConfig {
            rate: config.stream_rate,
            delay: config.stream_delay,
            ..LinkConfig::PERFECT
        };
        Self {
            now: Instant::ZERO,
            left: Seat::new(left),
            right: Seat::new(right),
            there: Path::new(config.there, stream, rng.next_u64()),
            back: Path::new(config.back, stream, rng.next_u64()),
            host: Host::new(config.host, rng.next_u64()),
            inbox: Agenda::new(),
            letters: Agenda::new(),
            ledger: None,
            overhead_len: config.overhead_len,
        }
    }

    /// Checks from now on that each body goes to the right machine once, and where it belongs.
    #[must_use]
    pub fn with_ledger(mut self) -> Self {
        self.ledger = Some(Ledger::default());
        self
    }

    /// Lets time pass until `till`, or until nothing more will happen; answers the last moment.
    pub fn run(
        &mut self,
        till: Instant,
        mut hear: impl FnMut(Instant, Heard<L::Event, R::Event>),
    ) -> Instant {
        self.drain_left(&mut hear);
        self.drain_right(&mut hear);
        let mut idle = 0;
        while let Some((at, next)) = self.next() {
            if at > till {
                self.now = till;
                break;
            }
            idle = if at > self.now { 0 } else { idle + 1 };
            assert!(idle < IDLE_MAX, "time stands still at {at}");
            self.now = at;
            self.happen(next, &mut hear);
        }
        self.now
    }

    /// Tells the right machine how its host is doing at a moment that the world has run till.
    pub fn handle_load(
        &mut self,
        at: Instant,
        load: Load,
        mut hear: impl FnMut(Instant, Heard<L::Event, R::Event>),
    ) {
        self.skip(at);
        self.right.machine.handle_load(self.now, load);
        self.drain_right(&mut hear);
    }

    /// Tells the left machine that another rate is wanted from a moment that the world has run
    /// till.
    pub fn handle_rate(
        &mut self,
        at: Instant,
        rate: Rate,
        mut hear: impl FnMut(Instant, Heard<L::Event, R::Event>),
    ) {
        self.skip(at);
        self.left.machine.handle_rate(self.now, rate);
        self.drain_left(&mut hear);
    }

    /// The moment it is at.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// The left machine.
    pub const fn left(&self) -> &L {
        &self.left.machine
    }

    /// The right machine.
    pub const fn right(&self) -> &R {
        &self.right.machine
    }

    /// The link that carries datagrams to the right.
    pub const fn there(&self) -> &Link {
        &self.there.link
    }

    /// The link that carries datagrams to the left.
    pub const fn back(&self) -> &Link {
        &self.back.link
    }

    /// The host of the right machine.
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// What was placed, if [`World::with_ledger`] asked for it.
    pub const fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_ref()
    }

    /// Lets time pass in which nothing happens.
    fn skip(&mut self, till: Instant) {
        let next = self.next().map_or(Instant::NEVER, |(at, _)| at);
        assert!(
            self.now <= till && till <= next,
            "the world runs till {till} first"
        );
        self.now = till;
    }

    /// What happens next, and when.
    fn next(&self) -> Option<(Instant, Next)> {
        // of one moment, what arrives comes before what is due: a late datagram still counts
        [
            (self.inbox.next_at(), Next::Absorbed),
            (self.host.foresees_at(), Next::Foreseen),
            (self.letters.next_at(), Next::Attended),
            (self.there.datagrams.next_at(), Next::DatagramRight),
            (self.back.datagrams.next_at(), Next::DatagramLeft),
            (self.there.messages.next_at(), Next::MessageRight),
            (self.back.messages.next_at(), Next::MessageLeft),
            (self.left.due.max(self.now), Next::TimeoutLeft),
            (self.right.due.max(self.now), Next::TimeoutRight),
        ]
        .into_iter()
        .min_by_key(|(at, _)| *at)
        .filter(|(at, _)| *at < Instant::NEVER)
    }

    fn happen(&mut self, next: Next, hear: &mut impl FnMut(Instant, Heard<L::Event, R::Event>)) {
        match next {
            Next::DatagramRight => return self.arrive(),
            Next::Absorbed => self.absorbed(),
            Next::Foreseen => {
                let load = self.host.foresee(self.now);
                self.right.machine.handle_load(self.now, load);
            }
            Next::MessageRight => {
                if let Some((_, message)) = self.there.messages.pop() {
                    let at = self.host.attend(self.now);
                    self.letters.insert(at, message);
                }
                return;
            }
            Next::Attended => {
                let placed = self.right.hear_stream(self.now, &mut self.letters);
                self.note(placed);
            }
            Next::TimeoutRight if self.now < self.host.free_at() => {
                // who does not have the processor does not see the time pass
                self.right.due = self.host.free_at();
                return;
            }
            Next::TimeoutRight => self.right.machine.handle_timeout(self.now),
            Next::MessageLeft => {
                self.left.hear_stream(self.now, &mut self.back.messages);
            }
            Next::TimeoutLeft => self.left.machine.handle_timeout(self.now),
            Next::DatagramLeft => {
                if let Some((_, datagram)) = self.back.datagrams.pop() {
                    self.left.hear_datagram(self.now, &datagram);
                }
            }
        }
        match next {
            Next::DatagramLeft | Next::MessageLeft | Next::TimeoutLeft => self.drain_left(hear),
            Next::DatagramRight
            | Next::Absorbed
            | Next::Foreseen
            | Next::MessageRight
            | Next::Attended
            | Next::TimeoutRight => {
                self.drain_right(hear);
            }
        }
    }

    /// A datagram comes to the right host, which takes its time with it.
    fn arrive(&mut self) {
        if let Some((_, datagram)) = self.there.datagrams.pop() {
            let len = self.overhead_len + datagram.len();
            if let Some(at) = self.host.absorb(self.now, len) {
                self.inbox.insert(at, datagram);
            }
        }
    }

    /// The right machine gets a datagram, and says where its body belongs.
    fn absorbed(&mut self) {
        let Some((_, datagram)) = self.inbox.pop() else {
            return;
        };
        let target = self.right.hear_datagram(self.now, &datagram);
        self.note(target.map(|target| (datagram.body, target)));
    }

    /// Notes where the right machine has placed what a message carried.
    fn note(&mut self, placed: Option<(Span, Span)>) {
        if let (Some(ledger), Some((carried, target))) = (&mut self.ledger, placed)
            && let Err(misplaced) = ledger.place(carried, target)
        {
            panic!("{}: {misplaced}", self.now);
        }
    }

    fn drain_left(&mut self, hear: &mut impl FnMut(Instant, Heard<L::Event, R::Event>)) {
        let overhead_len = self.overhead_len;
        while let Some(transmit) = self.left.machine.poll_transmit(self.now) {
            self.there.carry(self.now, transmit, overhead_len);
        }
        while let Some(event) = self.left.machine.poll_event() {
            hear(self.now, Heard::Left(event));
        }
        self.left.due = due(self.left.machine.poll_timeout());
    }

    fn drain_right(&mut self, hear: &mut impl FnMut(Instant, Heard<L::Event, R::Event>)) {
        let overhead_len = self.overhead_len;
        while let Some(transmit) = self.right.machine.poll_transmit(self.now) {
            self.back.carry(self.now, transmit, overhead_len);
        }
        while let Some(event) = self.right.machine.poll_event() {
            hear(self.now, Heard::Right(event));
        }
        self.right.due = due(self.right.machine.poll_timeout());
    }
}

/// The kinds of things that happen.
#[derive(Clone, Copy, Debug)]
enum Next {
    DatagramRight,
    Absorbed,
    Foreseen,
    MessageRight,
    Attended,
    TimeoutRight,
    DatagramLeft,
    MessageLeft,
    TimeoutLeft,
}

/// A machine, and when it wants to be woken.
#[derive(Debug)]
struct Seat<E> {
    machine: E,
    due: Instant,
}

impl<E: Endpoint> Seat<E> {
    const fn new(machine: E) -> Self {
        Self {
            machine,
            due: Instant::NEVER,
        }
    }

    fn hear_datagram(&mut self, now: Instant, datagram: &Datagram) -> Option<Span> {
        let message = Message {
            via: Via::Datagram,
            head: datagram.head.as_slice(),
            len: datagram.body.len,
        };
        self.machine.handle_message(now, message)
    }

    /// Hands the next message over; answers what it carried and where that belongs.
    fn hear_stream(
        &mut self,
        now: Instant,
        messages: &mut Agenda<StreamMessage>,
    ) -> Option<(Span, Span)> {
        let (_, message) = messages.pop()?;
        let via = Via::Stream(message.stream);
        let (head, len) = (&message.head[..], message.body.len);
        let target = self
            .machine
            .handle_message(now, Message { via, head, len })?;
        Some((message.body, target))
    }
}

/// One direction: a link for datagrams, and a stream that keeps all in order.
#[derive(Debug)]
struct Path {
    link: Link,
    datagrams: Agenda<Datagram>,
    stream: Link,
    messages: Agenda<StreamMessage>,
}

impl Path {
    const fn new(link: LinkConfig, stream: LinkConfig, seed: u64) -> Self {
        Self {
            link: Link::new(link, seed),
            datagrams: Agenda::new(),
            stream: Link::new(stream, 0),
            messages: Agenda::new(),
        }
    }

    fn carry(&mut self, now: Instant, transmit: Transmit, overhead_len: u32) {
        match transmit.via {
            Via::Datagram => {
                let datagram = Datagram {
                    head: transmit.head,
                    body: span(&transmit.body),
                };
                self.carry_datagram(now, datagram, overhead_len);
            }
            Via::Stream(stream) => {
                let body = span(&transmit.body);
                let mut head = transmit.head.as_slice().to_vec();
                if let Body::Words(words) = transmit.body {
                    head.extend(words);
                }
                let len = FRAME_LEN + head.len() as u32 + body.len;
                if let Verdict::Delivered { at, .. } = self.stream.offer(now, len) {
                    self.messages
                        .insert(at, StreamMessage { stream, head, body });
                }
            }
        }
    }

    fn carry_datagram(&mut self, now: Instant, datagram: Datagram, overhead_len: u32) {
        let verdict = self.link.offer(now, overhead_len + datagram.len());
        if let Verdict::Delivered { at, again } = verdict {
            self.datagrams.insert(at, datagram);
            if let Some(at) = again {
                self.datagrams.insert(at, datagram);
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Datagram {
    head: Head,
    body: Span,
}

impl Datagram {
    fn len(&self) -> u32 {
        self.head.as_slice().len() as u32 + self.body.len
    }
}

#[derive(Debug)]
struct StreamMessage {
    stream: u16,
    head: Vec<u8>,
    body: Span,
}

fn due(deadline: Option<Deadline>) -> Instant {
    deadline.map_or(Instant::NEVER, |deadline| deadline.at)
}

/// The bytes of the object in a body.
const fn span(body: &Body) -> Span {
    match body {
        Body::Object(span) => *span,
        Body::None | Body::Words(_) => Span::new(0, 0),
    }
}

/// Bytes of a stream's frame.
const FRAME_LEN: u32 = 4;
/// More than this happens at one moment only when a machine asks to be woken for nothing.
const IDLE_MAX: u64 = 1 << 32;
