//! Two machines of a network, and the path between them.
//!
//! A [`Flow`] runs its left and right machine in virtual time, one event after the other. At the
//! same instant, arrivals precede timeouts. With a ledger, it checks each byte that the right
//! machine places, and panics if one is misplaced.

use core::time::Duration;

use lighthaul_base::{Endpoint, Instant, Rate, Span};

use crate::event_queue::EventQueue;
use crate::host::{Host, HostConfig};
use crate::ledger::Ledger;
use crate::link::{Link, LinkConfig};
use crate::machine::{Datagram, StreamMessage, TimedMachine};
use crate::route::{Route, RouteConfig};

/// Path between the left and the right machine of a flow.
#[derive(Clone, Debug, Default)]
pub struct FlowConfig {
    /// Start time. The machines must have been created for this time.
    pub start: Instant,
    /// Route of datagrams from left to right.
    pub there: RouteConfig,
    /// Route of datagrams from right to left.
    pub back: RouteConfig,
    /// One-way delay of streams, in both directions.
    pub stream_delay: Duration,
    /// Rate of the streams of each direction; `None` is infinitely fast.
    pub stream_rate: Option<Rate>,
    /// True if stream messages share the queue of the first link and the delay of the links with datagrams, as TCP
    /// does. `stream_delay` then counts only where a direction has no links.
    pub streams_queue: bool,
    /// Bytes that the lower layers add to the head and body of a datagram: IP, UDP and encryption.
    pub overhead_len: u32,
    /// Host of the right machine.
    pub host: HostConfig,
}

/// Event that the left or right machine reported to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowEvent<L, R> {
    /// Event of the left machine.
    Left(L),
    /// Event of the right machine.
    Right(R),
}

/// Pair of a left and a right machine in simulation.
#[derive(Debug)]
pub struct Flow<L, R> {
    start: Instant,
    pub(crate) left: TimedMachine<L>,
    pub(crate) right: TimedMachine<R>,
    there: Route,
    back: Route,
    host: Host,
    /// Datagrams in the receive buffer of the right host, by the time at which the machine receives them.
    inbox: EventQueue<Datagram>,
    /// Stream messages at the right host, by the time at which the machine receives them.
    stream_inbox: EventQueue<StreamMessage>,
    ledger: Option<Ledger>,
    placed_bytes: u64,
    overhead_len: u32,
    next: (Instant, Next),
}

impl<L: Endpoint, R: Endpoint> Flow<L, R> {
    pub(crate) fn new(left: L, right: R, config: &FlowConfig, seed: u64) -> Self {
        let stream = LinkConfig {
            rate: config.stream_rate,
            delay: config.stream_delay,
            ..LinkConfig::PERFECT
        };
        let behind = config.streams_queue;
        let route = |route| Route::new(route, stream, behind, config.overhead_len);
        Self {
            start: config.start,
            left: TimedMachine::new(left),
            right: TimedMachine::new(right),
            there: route(&config.there),
            back: route(&config.back),
            host: Host::new(config.host, seed),
            inbox: EventQueue::new(),
            stream_inbox: EventQueue::new(),
            ledger: None,
            placed_bytes: 0,
            overhead_len: config.overhead_len,
            next: (config.start, Next::Start),
        }
    }

    /// Returns the left machine.
    pub const fn left(&self) -> &L {
        &self.left.machine
    }

    /// Returns the right machine.
    pub const fn right(&self) -> &R {
        &self.right.machine
    }

    /// Returns the host of the right machine.
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// Changes the parameters of the host. Its buffer is empty afterwards.
    pub(crate) fn change_host(&mut self, config: HostConfig, seed: u64) {
        self.host = Host::new(config, seed);
    }

    /// Returns the placed bytes if a ledger is kept.
    pub const fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_ref()
    }

    /// Returns the bytes of the object that the right machine has placed.
    pub const fn placed_bytes(&self) -> u64 {
        self.placed_bytes
    }

    /// Starts a ledger of placed bytes. A misplaced byte panics from then on.
    pub(crate) fn keep_ledger(&mut self) {
        self.ledger = Some(Ledger::default());
    }

    /// Returns the time of the next event.
    pub(crate) const fn next_at(&self) -> Instant {
        self.next.0
    }

    /// Runs the next event, which is due at `now`.
    pub(crate) fn run_next(
        &mut self,
        now: Instant,
        links: &mut [Link],
        on_event: &mut impl FnMut(FlowEvent<L::Event, R::Event>),
    ) {
        match self.next.1 {
            Next::Start => {
                self.start = Instant::NEVER;
                self.drain_left(now, links, on_event);
                self.drain_right(now, links, on_event);
            }
            Next::HopThere(nth) => self.there.hop(now, nth, links),
            Next::HopBack(nth) => self.back.hop(now, nth, links),
            Next::DatagramRight => {
                if self.arrive(now) {
                    self.drain_right(now, links, on_event);
                }
            }
            Next::DatagramReceived => {
                if let Some((_, datagram)) = self.inbox.pop() {
                    self.place(now, &datagram);
                }
                self.drain_right(now, links, on_event);
            }
            Next::LoadSample => {
                let load = self.host.take_load(now);
                self.right.machine.handle_load(now, load);
                self.drain_right(now, links, on_event);
            }
            Next::MessageRight => {
                if let Some((_, message)) = self.there.messages.pop() {
                    self.stream_inbox
                        .insert(self.host.receive_message(now), message);
                }
            }
            Next::MessageReceived => {
                let placed = self
                    .right
                    .handle_stream_message(now, &mut self.stream_inbox);
                self.note(now, placed);
                self.drain_right(now, links, on_event);
            }
            Next::TimeoutRight if now < self.host.free_at() => {
                // a task without a processor does not see its timers expire
                self.right.due = self.host.free_at();
            }
            Next::TimeoutRight => {
                self.right.machine.handle_timeout(now);
                self.drain_right(now, links, on_event);
            }
            Next::DatagramLeft => {
                if let Some((_, datagram)) = self.back.arrivals.pop() {
                    self.left.handle_datagram(now, &datagram);
                }
                self.drain_left(now, links, on_event);
            }
            Next::MessageLeft => {
                self.left
                    .handle_stream_message(now, &mut self.back.messages);
                self.drain_left(now, links, on_event);
            }
            Next::TimeoutLeft => {
                self.left.machine.handle_timeout(now);
                self.drain_left(now, links, on_event);
            }
        }
        self.schedule_next(now);
    }

    /// Finds the next event.
    pub(crate) fn schedule_next(&mut self, now: Instant) {
        let (hop_there, there) = self.there.next_hop();
        let (hop_back, back) = self.back.next_hop();
        // at the same time, arrivals precede timeouts: a datagram at the deadline still counts
        let nexts = [
            (self.start, Next::Start),
            (hop_there, Next::HopThere(there)),
            (hop_back, Next::HopBack(back)),
            (self.inbox.next_at(), Next::DatagramReceived),
            (self.host.next_load_at(), Next::LoadSample),
            (self.stream_inbox.next_at(), Next::MessageReceived),
            (self.there.arrivals.next_at(), Next::DatagramRight),
            (self.back.arrivals.next_at(), Next::DatagramLeft),
            (self.there.messages.next_at(), Next::MessageRight),
            (self.back.messages.next_at(), Next::MessageLeft),
            (self.left.due.max(now), Next::TimeoutLeft),
            (self.right.due.max(now), Next::TimeoutRight),
        ];
        let never = (Instant::NEVER, Next::Start);
        let earlier = |a: (Instant, Next), b: (Instant, Next)| if b.0 < a.0 { b } else { a };
        self.next = nexts.into_iter().fold(never, earlier);
    }

    /// Takes a datagram into the right host's receive buffer. Returns true if the machine received it at once.
    fn arrive(&mut self, now: Instant) -> bool {
        let Some((_, datagram)) = self.there.arrivals.pop() else {
            return false;
        };
        let len = self.overhead_len + datagram.len();
        match self.host.absorb(now, len) {
            Some(at) if at == now && self.inbox.is_empty() => {
                self.place(now, &datagram);
                true
            }
            Some(at) => {
                self.inbox.insert(at, datagram);
                false
            }
            None => false,
        }
    }

    /// Passes a datagram to the right machine, and records where its body is placed.
    fn place(&mut self, now: Instant, datagram: &Datagram) {
        let target = self.right.handle_datagram(now, datagram);
        self.note(now, target.map(|target| (datagram.body, target)));
    }

    /// Records the placement of a body: its span, and the span at which the right machine placed it.
    fn note(&mut self, now: Instant, placed: Option<(Span, Span)>) {
        let Some((carried, target)) = placed else {
            return;
        };
        self.placed_bytes += u64::from(target.len);
        if let Some(ledger) = &mut self.ledger
            && let Err(misplaced) = ledger.place(carried, target)
        {
            panic!("{now}: {misplaced}");
        }
    }

    pub(crate) fn drain_left(
        &mut self,
        now: Instant,
        links: &mut [Link],
        on_event: &mut impl FnMut(FlowEvent<L::Event, R::Event>),
    ) {
        while let Some(transmit) = self.left.machine.poll_transmit(now) {
            self.there.carry(now, &transmit, links);
        }
        self.left
            .poll_events(|event| on_event(FlowEvent::Left(event)));
    }

    pub(crate) fn drain_right(
        &mut self,
        now: Instant,
        links: &mut [Link],
        on_event: &mut impl FnMut(FlowEvent<L::Event, R::Event>),
    ) {
        while let Some(transmit) = self.right.machine.poll_transmit(now) {
            self.back.carry(now, &transmit, links);
        }
        self.right
            .poll_events(|event| on_event(FlowEvent::Right(event)));
    }
}

/// Types of events.
#[derive(Clone, Copy, Debug)]
enum Next {
    Start,
    HopThere(usize),
    HopBack(usize),
    DatagramRight,
    DatagramReceived,
    LoadSample,
    MessageRight,
    MessageReceived,
    TimeoutRight,
    DatagramLeft,
    MessageLeft,
    TimeoutLeft,
}
