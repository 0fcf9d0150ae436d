//! The machines of all protocols behind one face.
//!
//! A lane makes one for each object and asks it a few things; which protocol it is does not matter there.
//! An enum rather than a trait object: the data path is compiled for each.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lighthaul_base::{Deadline, Endpoint, Instant, Load, Message, Rate, Span, Transmit};
use lighthaul_proto::rbudp::{self, ReceiverEvent, SenderEvent};

use crate::protocol::Protocol;

/// What a machine is made of, whatever its protocol; each takes what it needs.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// What moves the object.
    pub protocol: Protocol,
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
    /// How long the receiver waits for stragglers.
    pub settle: Duration,
    /// What takes less than this is repeated rather than asked about.
    pub repeat: Duration,
}

/// What the owner of either machine gets to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// A pass over what is missing begins: its number, from 1, and the packets that it sends.
    Round(u16, u64),
    /// That pass has left, and the receiver was asked what came; or there, it was answered.
    Asked(u16),
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
}

/// Receives one object.
#[derive(Debug)]
pub enum ReceiveMachine {
    /// By Reliable Blast UDP.
    Rbudp(rbudp::Receiver),
}

impl Setup {
    /// Tells why no machine can be made of this.
    pub fn check(&self) -> Result<(), String> {
        match self.protocol {
            Protocol::Rbudp => self.rbudp().check().map_err(|error| error.to_string()),
        }
    }

    const fn rbudp(&self) -> rbudp::Config {
        rbudp::Config {
            object_len: self.object_len,
            packet_len: self.packet_len,
            overhead_len: self.overhead_len,
            rate: self.rate,
            burst: None,
            stream: self.stream,
            settle: self.settle,
            repeat: self.repeat,
        }
    }
}

/// Calls whichever machine it is.
macro_rules! each {
    ($self:expr, $machine:ident => $call:expr) => {
        match $self {
            Self::Rbudp($machine) => $call,
        }
    };
}

impl SendMachine {
    /// The machine for `setup`, which passed [`Setup::check`].
    pub fn new(now: Instant, setup: &Setup, _learned: Learned, seed: u64) -> Self {
        match setup.protocol {
            Protocol::Rbudp => Self::Rbudp(rbudp::Sender::new(now, setup.rbudp(), seed)),
        }
    }

    /// Packets sent in all.
    pub const fn sent(&self) -> u64 {
        each!(self, machine => machine.sent())
    }

    /// Packets sent more than once, counted each time but the first.
    pub const fn resent(&self) -> u64 {
        each!(self, machine => machine.resent())
    }

    /// The pass that it is in, from 1.
    pub const fn round(&self) -> u16 {
        each!(self, machine => machine.round())
    }

    /// Whether the receiver wants it to wait.
    pub const fn is_held(&self) -> bool {
        each!(self, machine => machine.is_held())
    }

    /// The rate it keeps.
    pub const fn rate(&self) -> Rate {
        each!(self, machine => machine.rate())
    }

    /// Packets of this pass that have not left.
    pub const fn left(&self) -> u64 {
        match self {
            Self::Rbudp(machine) => machine.round_packets().saturating_sub(machine.round_sent()),
        }
    }

    /// What the next object's machine should know.
    pub const fn learned(&self) -> Learned {
        match self {
            Self::Rbudp(_) => Learned::Nothing,
        }
    }
}

impl ReceiveMachine {
    /// The machine for `setup`, which passed [`Setup::check`].
    pub fn new(now: Instant, setup: &Setup, seed: u64) -> Self {
        match setup.protocol {
            Protocol::Rbudp => Self::Rbudp(rbudp::Receiver::new(now, setup.rbudp(), seed)),
        }
    }

    /// Packets received, each counted once.
    pub const fn received(&self) -> u64 {
        each!(self, machine => machine.received())
    }

    /// Datagrams that came, whatever they were.
    pub const fn datagrams(&self) -> u64 {
        each!(self, machine => machine.datagrams())
    }

    /// Packets that came again.
    pub const fn duplicates(&self) -> u64 {
        each!(self, machine => machine.duplicates())
    }

    /// The last pass that was answered.
    pub const fn round(&self) -> u16 {
        each!(self, machine => machine.round())
    }

    /// Whether the sender was asked to wait.
    pub const fn is_holding(&self) -> bool {
        each!(self, machine => machine.is_holding())
    }
}

impl From<SenderEvent> for Moved {
    fn from(event: SenderEvent) -> Self {
        match event {
            SenderEvent::Round { number, packets } => Self::Round(number, packets),
            SenderEvent::Asked { round } => Self::Asked(round),
            SenderEvent::Barren { .. } => Self::Barren,
            SenderEvent::Complete => Self::Complete,
            SenderEvent::Failed(why) => Self::Failed(why.to_string()),
        }
    }
}

impl From<ReceiverEvent> for Moved {
    fn from(event: ReceiverEvent) -> Self {
        match event {
            ReceiverEvent::Tallied { round, .. } => Self::Asked(round),
            ReceiverEvent::Complete => Self::Complete,
            ReceiverEvent::Failed(why) => Self::Failed(why.to_string()),
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
