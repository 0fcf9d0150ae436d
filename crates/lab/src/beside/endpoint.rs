//! Machines of a simulated link: those of SABUL, and those of TCP.

use lighthaul_base::{Deadline, Endpoint, Instant, Load, Message, Span, Transmit};
use lighthaul_proto::sabul;
use lighthaul_workload::tcp;

/// Sending machine.
#[derive(Debug)]
pub(super) enum Left {
    Sabul(Box<sabul::Sender>),
    Tcp(Box<tcp::Sender>),
}

/// Receiving machine.
#[derive(Debug)]
pub(super) enum Right {
    Sabul(Box<sabul::Receiver>),
    Tcp(Box<tcp::Receiver>),
}

/// Implements `Endpoint` by calling the machine of either variant. Events are dropped: flows have no end.
macro_rules! endpoint {
    ($enum:ty) => {
        impl Endpoint for $enum {
            type Event = ();

            fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
                match self {
                    Self::Sabul(machine) => machine.handle_message(now, message),
                    Self::Tcp(machine) => machine.handle_message(now, message),
                }
            }

            fn handle_timeout(&mut self, now: Instant) {
                match self {
                    Self::Sabul(machine) => machine.handle_timeout(now),
                    Self::Tcp(machine) => machine.handle_timeout(now),
                }
            }

            fn handle_load(&mut self, now: Instant, load: Load) {
                match self {
                    Self::Sabul(machine) => machine.handle_load(now, load),
                    Self::Tcp(machine) => machine.handle_load(now, load),
                }
            }

            fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
                match self {
                    Self::Sabul(machine) => machine.poll_transmit(now),
                    Self::Tcp(machine) => machine.poll_transmit(now),
                }
            }

            fn poll_event(&mut self) -> Option<()> {
                match self {
                    Self::Sabul(machine) => machine.poll_event().map(drop),
                    Self::Tcp(_) => None,
                }
            }

            fn poll_timeout(&self) -> Option<Deadline> {
                match self {
                    Self::Sabul(machine) => machine.poll_timeout(),
                    Self::Tcp(machine) => machine.poll_timeout(),
                }
            }
        }
    };
}

endpoint!(Left);
endpoint!(Right);
