//! The machines of all protocols behind one face.
//!
//! A lane makes one for each object and asks it a few things; which protocol it is does not matter there.
//! An enum rather than a trait object: the data path is compiled for each.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lighthaul_base::{Deadline, Endpoint, Instant, Load, Message, Rate, Span, Transmit, Trc};
use lighthaul_proto::{rbudp, sabul, stripe, vbtp};

use crate::protocol::Protocol;

/// What a machine is made of, whatever its protocol; each takes what it needs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What moves the object.
    pub protocol: Protocol,
    /// The object's number.
    pub object: u64,
    /// Bytes of the object.
    pub object_len: u64,
    /// Bytes of the object in a packet.
    pub packet_len: u32,
    /// Bytes that the world adds to each datagram on the wire.
    pub overhead_len: u32,
    /// Bits a second on the wire.
    pub rate: Rate,
    /// The stream of what must arrive.
    pub stream: u16,
    /// How many streams behind it share the load.
    pub streams: u16,
    /// How long the receiver waits for stragglers.
    pub settle: Duration,
    /// What takes less than this is repeated rather than asked about.
    pub repeat: Duration,
    /// There and back.
    pub rtt: Duration,
    /// What the circuit carries when, by the sender's clock; only senders that follow it have one.
    pub trc: Option<Trc>,
}

/// What the owner of either machine gets to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// A pass over what is missing begins: its number, from 1, and the packets that it sends.
    Round(u16, u64),
    /// That pass has left, and the receiver was asked what came; or there, it was answered.
    Asked(u16),
    /// There is nothing to send for the moment.
    Waits,
    /// A whole pass brought nothing new.
    Barren,
    /// The object is there.
    Complete,
    /// The peer broke the protocol, in these words.
    Failed(String),
}

/// What the machine of one object has learned of the path, and the next one on any lane begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Learned {
    /// Nothing that outlives the object.
    #[default]
    Nothing,
    /// How many streams are worth it.
    Width(stripe::Width),
    /// What rate the path bears.
    Path(sabul::Memory),
}

/// Hands what was learned from one object's machine to the next.
#[derive(Debug, Default)]
pub struct Baton(Mutex<Learned>);

impl Baton {
    /// What is known.
    pub fn look(&self) -> Learned {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known from now on.
    pub fn pass(&self, learned: Learned) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = learned;
    }
}

/// Sends one object.
#[derive(Debug)]
pub enum SendMachine {
    /// By Reliable Blast UDP.
    Rbudp(rbudp::Sender),
    /// Over streams.
    Stripe(stripe::Sender),
    /// On a circuit, by its vector.
    Vbtp(vbtp::Sender),
    /// On a path that others use.
    Sabul(sabul::Sender),
}

/// Receives one object.
#[derive(Debug)]
pub enum ReceiveMachine {
    /// By Reliable Blast UDP.
    Rbudp(rbudp::Receiver),
    /// Over streams.
    Stripe(stripe::Receiver),
    /// On a circuit.
    Vbtp(vbtp::Receiver),
    /// On a path that others use.
    Sabul(sabul::Receiver),
}

impl Setup {
    /// Tells why no machine can be made of this.
    pub fn check(&self) -> Result<(), String> {
        match self.protocol {
            Protocol::Rbudp | Protocol::RbudpPlus => {
                self.rbudp().check().map_err(|error| error.to_string())
            }
            Protocol::Tcp | Protocol::Ptcp => {
                self.stripe().check().map_err(|error| error.to_string())
            }
            Protocol::Vbtp => self.vbtp().check().map_err(|error| error.to_string()),
            Protocol::Sabul | Protocol::SabulSwift => {
                let config = self.sabul(Learned::Nothing);
                config.check().map_err(|error| error.to_string())
            }
        }
    }

    const fn stripe(&self) -> stripe::Config {
        stripe::Config {
            object_len: self.object_len,
            packet_len: self.packet_len,
            rate: self.rate,
            stream: self.stream,
            streams: self.streams,
        }
    }

    fn sabul(&self, learned: Learned) -> sabul::Config {
        let mode = if self.protocol == Protocol::SabulSwift {
            sabul::Mode::Swift
        } else {
            sabul::Mode::Paper
        };
        let memory = match learned {
            Learned::Path(memory) => memory,
            // what was measured may be others' as well
            Learned::Nothing | Learned::Width(_) => {
                sabul::Memory::new(self.rate.scaled(1, 2), self.rtt)
            }
        };
        // a good one for the paper's rules; the others judge by the queue, for which there is room
        let window = self.rate.bytes_in((SYN + self.rtt) * 2) / u64::from(self.packet_len.max(1));
        sabul::Config {
            object_len: self.object_len,
            packet_len: self.packet_len,
            overhead_len: self.overhead_len,
            mode,
            memory,
            rate_max: self.rate,
            burst: None,
            stream: self.stream,
            window_max: window.clamp(WINDOW_MIN, WINDOW_MAX) as u32,
            ranges_max: LOSSES_MAX,
        }
    }

    fn vbtp(&self) -> vbtp::Config {
        vbtp::Config {
            object_len: self.object_len,
            packet_len: self.packet_len,
            overhead_len: self.overhead_len,
            stream: self.stream,
            burst: None,
            share: (1, 1),
            rtt: self.rtt,
            repeat: self.repeat,
            settle: self.settle,
            ack_every: ACK_EVERY,
            window: vbtp::Config::window_for(self.rate, self.rtt, self.packet_len),
            block: BLOCK_PACKETS,
            losses_max: LOSSES_MAX,
        }
    }

    /// RBUDP's parameters.
    pub(crate) fn rbudp(&self) -> rbudp::Config {
        rbudp::Config {
            object_len: self.object_len,
            packet_len: self.packet_len,
            overhead_len: self.overhead_len,
            rate: self.rate,
            burst: None,
            stream: self.stream,
            settle: self.settle,
            repeat: self.repeat,
            feedback: (self.protocol == Protocol::RbudpPlus).then_some(rbudp::FeedbackConfig {
                rtt: self.rtt,
                pause_max: PAUSE_MAX,
            }),
        }
    }
}

/// Calls whichever machine it is.
macro_rules! each {
    ($self:expr, $machine:ident => $call:expr) => {
        match $self {
            Self::Rbudp($machine) => $call,
            Self::Stripe($machine) => $call,
            Self::Vbtp($machine) => $call,
            Self::Sabul($machine) => $call,
        }
    };
}

impl SendMachine {
    /// The machine for `setup`, which passed [`Setup::check`].
    pub fn new(now: Instant, setup: &Setup, learned: Learned) -> Self {
        let seed = setup.object;
        match setup.protocol {
            Protocol::Rbudp | Protocol::RbudpPlus => {
                Self::Rbudp(rbudp::Sender::new(now, setup.rbudp(), seed))
            }
            Protocol::Tcp | Protocol::Ptcp => {
                let width = match learned {
                    Learned::Width(width) => width,
                    Learned::Nothing | Learned::Path(_) => stripe::Width::fixed(setup.streams),
                };
                Self::Stripe(stripe::Sender::new(now, setup.stripe(), width))
            }
            Protocol::Vbtp => {
                let trc = setup
                    .trc
                    .clone()
                    .expect("a sender on a circuit is given its vector");
                let sender = vbtp::Sender::new(now, setup.vbtp(), trc, seed);
                Self::Vbtp(sender)
            }
            Protocol::Sabul | Protocol::SabulSwift => {
                let sender = sabul::Sender::new(now, setup.sabul(learned), seed);
                Self::Sabul(sender)
            }
        }
    }

    /// Packets sent in all.
    pub fn sent(&self) -> u64 {
        each!(self, machine => machine.sent())
    }

    /// Packets sent more than once, counted each time but the first.
    pub fn resent(&self) -> u64 {
        each!(self, machine => machine.resent())
    }

    /// The pass that it is in, from 1.
    pub fn round(&self) -> u16 {
        match self {
            Self::Rbudp(machine) => machine.round(),
            Self::Stripe(machine) => machine.round(),
            // what was lost is sent while the rest is
            Self::Vbtp(_) | Self::Sabul(_) => 1,
        }
    }

    /// Whether the receiver wants it to wait.
    pub fn is_held(&self) -> bool {
        match self {
            Self::Rbudp(machine) => machine.is_held(),
            Self::Vbtp(machine) => machine.is_held(),
            Self::Sabul(machine) => machine.is_held(),
            // a stream that nobody reads fills up
            Self::Stripe(_) => false,
        }
    }

    /// Whether this pass leaves within `ahead` at its rate, packets being of `packet_len` bytes.
    pub fn is_ending(&self, ahead: Duration, packet_len: u32) -> bool {
        let (left, rate) = match self {
            Self::Rbudp(machine) => {
                let left = machine.round_packets().saturating_sub(machine.round_sent());
                (left, machine.rate())
            }
            Self::Sabul(machine) => (machine.unsent(), machine.rate()),
            Self::Stripe(machine) if machine.rate() != Rate::UNLIMITED => {
                (machine.left(), machine.rate())
            }
            // nobody knows when streams that keep no rate have taken the rest; a circuit has room for one
            Self::Stripe(_) | Self::Vbtp(_) => return false,
        };
        rate.time_for(left.saturating_mul(packet_len.into())) < ahead
    }

    /// What the next object's machine should know.
    pub fn learned(&self) -> Learned {
        match self {
            Self::Rbudp(_) | Self::Vbtp(_) => Learned::Nothing,
            Self::Stripe(machine) => Learned::Width(machine.width()),
            Self::Sabul(machine) => Learned::Path(machine.memory()),
        }
    }
}

impl ReceiveMachine {
    /// The machine for `setup`, which passed [`Setup::check`].
    pub fn new(now: Instant, setup: &Setup) -> Self {
        match setup.protocol {
            Protocol::Rbudp | Protocol::RbudpPlus => {
                Self::Rbudp(rbudp::Receiver::new(now, setup.rbudp(), setup.object))
            }
            Protocol::Tcp | Protocol::Ptcp => {
                Self::Stripe(stripe::Receiver::new(now, setup.stripe()))
            }
            Protocol::Vbtp => {
                let receiver = vbtp::Receiver::new(now, setup.vbtp(), setup.object);
                Self::Vbtp(receiver)
            }
            Protocol::Sabul | Protocol::SabulSwift => {
                let config = setup.sabul(Learned::Nothing);
                let receiver = sabul::Receiver::new(now, config, setup.object);
                Self::Sabul(receiver)
            }
        }
    }

    /// Packets received, each counted once.
    pub fn received(&self) -> u64 {
        each!(self, machine => machine.received())
    }

    /// Datagrams that came, whatever they were.
    pub fn datagrams(&self) -> u64 {
        match self {
            Self::Rbudp(machine) => machine.datagrams(),
            Self::Stripe(machine) => machine.packets(),
            Self::Vbtp(machine) => machine.datagrams(),
            Self::Sabul(machine) => machine.datagrams(),
        }
    }

    /// Packets that came again.
    pub fn duplicates(&self) -> u64 {
        each!(self, machine => machine.duplicates())
    }

    /// The last pass that was answered.
    pub fn round(&self) -> u16 {
        match self {
            Self::Rbudp(machine) => machine.round(),
            Self::Stripe(_) | Self::Vbtp(_) | Self::Sabul(_) => 1,
        }
    }

    /// Whether the sender was asked to wait.
    pub fn is_holding(&self) -> bool {
        each!(self, machine => machine.is_holding())
    }
}

impl From<rbudp::SenderEvent> for Moved {
    fn from(event: rbudp::SenderEvent) -> Self {
        use rbudp::SenderEvent as Event;
        match event {
            Event::Round { number, packets } => Self::Round(number, packets),
            Event::Asked { round } => Self::Asked(round),
            Event::Barren { .. } => Self::Barren,
            Event::Complete => Self::Complete,
            Event::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}

impl From<rbudp::ReceiverEvent> for Moved {
    fn from(event: rbudp::ReceiverEvent) -> Self {
        use rbudp::ReceiverEvent as Event;
        match event {
            Event::Tallied { round, .. } => Self::Asked(round),
            Event::Complete => Self::Complete,
            Event::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}

impl From<stripe::SenderEvent> for Moved {
    fn from(event: stripe::SenderEvent) -> Self {
        use stripe::SenderEvent as Event;
        match event {
            Event::Round { number, packets } => Self::Round(number, packets),
            Event::Asked { round } => Self::Asked(round),
            Event::Complete => Self::Complete,
            Event::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}

impl From<stripe::ReceiverEvent> for Moved {
    fn from(event: stripe::ReceiverEvent) -> Self {
        match event {
            stripe::ReceiverEvent::Complete => Self::Complete,
        }
    }
}

impl From<vbtp::SenderEvent> for Moved {
    fn from(event: vbtp::SenderEvent) -> Self {
        use vbtp::SenderEvent as Event;
        match event {
            Event::Asked | Event::Released { .. } => Self::Waits,
            Event::Complete => Self::Complete,
            Event::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}

impl From<vbtp::ReceiverEvent> for Moved {
    fn from(event: vbtp::ReceiverEvent) -> Self {
        use vbtp::ReceiverEvent as Event;
        match event {
            Event::Answered { .. } => Self::Waits,
            Event::Complete => Self::Complete,
            Event::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}

impl From<sabul::SenderEvent> for Moved {
    fn from(event: sabul::SenderEvent) -> Self {
        use sabul::SenderEvent as Event;
        match event {
            Event::Passed => Self::Asked(1),
            Event::Barren => Self::Barren,
            Event::Complete => Self::Complete,
            Event::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}

impl From<sabul::ReceiverEvent> for Moved {
    fn from(event: sabul::ReceiverEvent) -> Self {
        use sabul::ReceiverEvent as Event;
        match event {
            Event::Complete => Self::Complete,
            Event::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}

/// An endpoint that is whichever machine it has.
macro_rules! endpoint {
    ($enum:ty) => {
        impl Endpoint for $enum {
            type Event = Moved;

            fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
                each!(self, machine => machine.handle_message(now, message))
            }

            fn handle_timeout(&mut self, now: Instant) {
                each!(self, machine => machine.handle_timeout(now));
            }

            fn handle_load(&mut self, now: Instant, load: Load) {
                each!(self, machine => machine.handle_load(now, load));
            }

            fn handle_rate(&mut self, now: Instant, rate: Rate) {
                each!(self, machine => machine.handle_rate(now, rate));
            }

            fn handle_room(&mut self, now: Instant, stream: u16) {
                each!(self, machine => machine.handle_room(now, stream));
            }

            fn handle_broken(&mut self, now: Instant, stream: u16) {
                each!(self, machine => machine.handle_broken(now, stream));
            }

            fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
                each!(self, machine => machine.poll_transmit(now))
            }

            fn poll_event(&mut self) -> Option<Moved> {
                each!(self, machine => machine.poll_event().map(Moved::from))
            }

            fn poll_timeout(&self) -> Option<Deadline> {
                each!(self, machine => machine.poll_timeout())
            }

            fn upcoming(&self, offset: u64, len: u32) -> Option<Span> {
                each!(self, machine => machine.upcoming(offset, len))
            }
        }
    };
}

endpoint!(SendMachine);
endpoint!(ReceiveMachine);

/// SABUL's control period, and what its flow window is held to.
const SYN: Duration = Duration::from_millis(10);
const WINDOW_MIN: u64 = 1 << 8;
const WINDOW_MAX: u64 = 1 << 20;
/// How often a VBTP receiver says what came, the packets of its blocks, and how many gaps it keeps in mind.
const ACK_EVERY: Duration = Duration::from_millis(10);
const BLOCK_PACKETS: u32 = 128;
const LOSSES_MAX: u32 = 1 << 14;
/// A receiving host that is away for longer gets no longer pauses.
const PAUSE_MAX: Duration = Duration::from_secs(2);
