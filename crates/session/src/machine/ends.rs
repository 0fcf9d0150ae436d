//! Sender and receiver of one object, for all protocols.
//!
//! They are enums, not trait objects, so that the data path is compiled for each protocol.

use std::time::Duration;

use lighthaul_base::{Deadline, Endpoint, Instant, Load, Message, Rate, Span, Transmit};
use lighthaul_proto::{rbudp, sabul, stripe, vbtp};

use super::event::MachineEvent;
use super::learned::Learned;
use super::setup::Setup;
use crate::protocol::Protocol;

/// Sender of one object.
#[derive(Debug)]
pub enum SendMachine {
    /// Reliable Blast UDP.
    Rbudp(rbudp::Sender),
    /// Parallel TCP streams.
    Stripe(stripe::Sender),
    /// VBTP, which follows the vector of a circuit.
    Vbtp(vbtp::Sender),
    /// SABUL, for paths that other flows use.
    Sabul(Box<sabul::Sender>),
}

/// Receiver of one object.
#[derive(Debug)]
pub enum ReceiveMachine {
    /// Reliable Blast UDP.
    Rbudp(rbudp::Receiver),
    /// Parallel TCP streams.
    Stripe(stripe::Receiver),
    /// VBTP, which follows the vector of a circuit.
    Vbtp(vbtp::Receiver),
    /// SABUL, for paths that other flows use.
    Sabul(sabul::Receiver),
}

/// Calls the machine of any variant.
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
    /// Creates the machine for `setup`, which must have passed [`Setup::check`].
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
                Self::Sabul(Box::new(sender))
            }
        }
    }

    /// Returns the packets sent in total.
    pub fn sent(&self) -> u64 {
        each!(self, machine => machine.sent())
    }

    /// Returns the packets sent again, counted at each repetition.
    pub fn resent(&self) -> u64 {
        each!(self, machine => machine.resent())
    }

    /// Returns the present rate.
    pub fn rate(&self) -> Rate {
        match self {
            Self::Rbudp(machine) => machine.rate(),
            Self::Stripe(machine) => machine.rate(),
            Self::Sabul(machine) => machine.rate(),
            // the circuit's vector determines it
            Self::Vbtp(_) => Rate::UNLIMITED,
        }
    }

    /// Returns the number of the current pass, from 1.
    pub fn round(&self) -> u16 {
        match self {
            Self::Rbudp(machine) => machine.round(),
            Self::Stripe(machine) => machine.round(),
            // lost packets are sent again while new ones are sent
            Self::Vbtp(_) | Self::Sabul(_) => 1,
        }
    }

    /// Returns true while the receiver asks the sender to wait.
    pub fn is_held(&self) -> bool {
        match self {
            Self::Rbudp(machine) => machine.is_held(),
            Self::Vbtp(machine) => machine.is_held(),
            Self::Sabul(machine) => machine.is_held(),
            // TCP's flow control holds a stream whose receiver does not read
            Self::Stripe(_) => false,
        }
    }

    /// Returns true if the present pass ends within `ahead` at its rate, with packets of `packet_len` bytes.
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
            // a gap of the vector has no rate
            Self::Vbtp(machine) => match machine.rate() {
                Some(rate) => (machine.unsent(), rate),
                None => return false,
            },
            // streams without a rate have no foreseeable end
            Self::Stripe(_) => return false,
        };
        rate.time_for(left.saturating_mul(packet_len.into())) < ahead
    }

    /// Returns the measurements for the next object's machine.
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
    /// Creates the machine for `setup`, which must have passed [`Setup::check`].
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

    /// Returns the packets received, each counted once.
    pub fn received(&self) -> u64 {
        each!(self, machine => machine.received())
    }

    /// Returns all datagrams that arrived, with duplicates.
    pub fn datagrams(&self) -> u64 {
        match self {
            Self::Rbudp(machine) => machine.arrivals().datagrams,
            Self::Stripe(machine) => machine.packets(),
            Self::Vbtp(machine) => machine.arrivals().datagrams,
            Self::Sabul(machine) => machine.arrivals().datagrams,
        }
    }

    /// Returns the packets received again.
    pub fn duplicates(&self) -> u64 {
        match self {
            Self::Rbudp(machine) => machine.arrivals().duplicates,
            Self::Stripe(machine) => machine.duplicates(),
            Self::Vbtp(machine) => machine.arrivals().duplicates,
            Self::Sabul(machine) => machine.arrivals().duplicates,
        }
    }

    /// Returns the number of the last pass that was answered.
    pub fn round(&self) -> u16 {
        match self {
            Self::Rbudp(machine) => machine.round(),
            Self::Stripe(_) | Self::Vbtp(_) | Self::Sabul(_) => 1,
        }
    }

    /// Returns the measurements for the next object's machine.
    pub fn learned(&self) -> Learned {
        match self {
            Self::Rbudp(machine) => machine.memory().map_or(Learned::Nothing, Learned::Socket),
            Self::Stripe(_) | Self::Vbtp(_) | Self::Sabul(_) => Learned::Nothing,
        }
    }

    /// Returns true while the sender is asked to wait.
    pub fn is_holding(&self) -> bool {
        each!(self, machine => machine.is_holding())
    }
}

/// Implements `Endpoint` by calling the machine of any variant.
macro_rules! endpoint {
    ($enum:ty) => {
        impl Endpoint for $enum {
            type Event = MachineEvent;

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

            fn poll_event(&mut self) -> Option<MachineEvent> {
                each!(self, machine => machine.poll_event().map(MachineEvent::from))
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
