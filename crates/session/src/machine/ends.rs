//! The sender and the receiver of one object, whichever protocol moves it.
//!
//! Enums rather than trait objects: the data path is compiled for each.

use std::time::Duration;

use lighthaul_base::{Deadline, Endpoint, Instant, Load, Message, Rate, Span, Transmit};
use lighthaul_proto::{rbudp, sabul, stripe, vbtp};

use super::learned::Learned;
use super::moved::Moved;
use super::setup::Setup;
use crate::protocol::Protocol;

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
                let mut sender = rbudp::Sender::new(now, setup.rbudp(), seed);
                if let Learned::Room(granted) = learned {
                    sender.remember(granted);
                }
                Self::Rbudp(sender)
            }
            Protocol::Tcp | Protocol::Ptcp => {
                let width = match learned {
                    Learned::Width(width) => width,
                    Learned::Nothing | Learned::Path(_) | Learned::Socket(_) | Learned::Room(_) => {
                        stripe::Width::fixed(setup.streams)
                    }
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
            Self::Rbudp(machine) => machine.granted().map_or(Learned::Nothing, Learned::Room),
            Self::Vbtp(_) => Learned::Nothing,
            Self::Stripe(machine) => Learned::Width(machine.width()),
            Self::Sabul(machine) => Learned::Path(machine.memory()),
        }
    }
}

impl ReceiveMachine {
    /// The machine for `setup`, which passed [`Setup::check`].
    pub fn new(now: Instant, setup: &Setup, learned: Learned) -> Self {
        match setup.protocol {
            Protocol::Rbudp | Protocol::RbudpPlus => {
                let mut receiver = rbudp::Receiver::new(now, setup.rbudp(), setup.object);
                if let Learned::Socket(memory) = learned {
                    receiver.remember(memory);
                }
                Self::Rbudp(receiver)
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

    /// What the next object's machine should know.
    pub fn learned(&self) -> Learned {
        match self {
            Self::Rbudp(machine) => machine.memory().map_or(Learned::Nothing, Learned::Socket),
            Self::Stripe(_) | Self::Vbtp(_) | Self::Sabul(_) => Learned::Nothing,
        }
    }

    /// Whether the sender was asked to wait.
    pub fn is_holding(&self) -> bool {
        each!(self, machine => machine.is_holding())
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
