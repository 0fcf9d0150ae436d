//! A machine of one of two kinds, for networks on which both kinds meet.

use alloc::boxed::Box;

use lighthaul_base::{Deadline, Endpoint, Instant, Load, Message, Rate, Span, Transmit};

/// Machine of one of two kinds. Only events of the first kind are reported.
#[derive(Debug)]
pub enum Mixed<A, B> {
    /// Machine of the first kind, such as a protocol.
    First(Box<A>),
    /// Machine of the second kind, such as a neighbor on the same link.
    Second(Box<B>),
}

/// Calls a method of the machine, whichever kind it is.
macro_rules! each {
    ($mixed:expr, $machine:ident => $call:expr) => {
        match $mixed {
            Mixed::First($machine) => $call,
            Mixed::Second($machine) => $call,
        }
    };
}

impl<A: Endpoint, B: Endpoint> Endpoint for Mixed<A, B> {
    type Event = A::Event;

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

    fn poll_event(&mut self) -> Option<Self::Event> {
        match self {
            Self::First(machine) => machine.poll_event(),
            Self::Second(machine) => {
                while machine.poll_event().is_some() {}
                None
            }
        }
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        each!(self, machine => machine.poll_timeout())
    }

    fn upcoming(&self, offset: u64, len: u32) -> Option<Span> {
        each!(self, machine => machine.upcoming(offset, len))
    }
}
