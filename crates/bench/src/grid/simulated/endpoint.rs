//! Machines of a simulated network: those of the transfer, and those of its neighbors.

use lighthaul_base::{Deadline, Endpoint, Instant, Load, Message, Span, Transmit};
use lighthaul_workload::tcp;

use super::neighbor::Neighbor;
use super::receiver::TransferReceiver;
use super::sender::TransferSender;

/// Sending machine.
#[derive(Debug)]
pub(crate) enum Left {
    Transfer(Box<TransferSender>),
    Neighbor(Box<Neighbor>),
}

/// Receiving machine.
#[derive(Debug)]
pub(crate) enum Right {
    Transfer(Box<TransferReceiver>),
    Neighbor(Box<tcp::Receiver>),
}

/// Implements `Endpoint` by calling the machine of either variant.
macro_rules! endpoint {
    ($enum:ty) => {
        impl Endpoint for $enum {
            type Event = ();

            fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
                match self {
                    Self::Transfer(machine) => machine.handle_message(now, message),
                    Self::Neighbor(machine) => machine.handle_message(now, message),
                }
            }

            fn handle_timeout(&mut self, now: Instant) {
                match self {
                    Self::Transfer(machine) => machine.handle_timeout(now),
                    Self::Neighbor(machine) => machine.handle_timeout(now),
                }
            }

            fn handle_load(&mut self, now: Instant, load: Load) {
                match self {
                    Self::Transfer(machine) => machine.handle_load(now, load),
                    Self::Neighbor(machine) => machine.handle_load(now, load),
                }
            }

            fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
                match self {
                    Self::Transfer(machine) => machine.poll_transmit(now),
                    Self::Neighbor(machine) => machine.poll_transmit(now),
                }
            }

            fn poll_event(&mut self) -> Option<()> {
                match self {
                    Self::Transfer(machine) => machine.poll_event(),
                    // a flow of TCP reports nothing
                    Self::Neighbor(_) => None,
                }
            }

            fn poll_timeout(&self) -> Option<Deadline> {
                match self {
                    Self::Transfer(machine) => machine.poll_timeout(),
                    Self::Neighbor(machine) => machine.poll_timeout(),
                }
            }
        }
    };
}

endpoint!(Left);
endpoint!(Right);
