//! The contract between a protocol's state machine and its driver (simulator, lab or real sockets).
//!
//! A machine has no socket, file, clock or thread. The driver passes in the time and the heads of received messages.
//! The machine returns byte ranges of the object and a deadline. The rules:
//!
//! 1. After one `handle_*` call (or those of one train of datagrams) the driver drains the machine, in this order:
//!    `poll_transmit` until `None`, `poll_event` until `None`, `poll_timeout` once. The order makes sure that the last
//!    message is sent before the owner learns that the transfer has ended.
//! 2. Time is an argument and never decreases. `handle_timeout` may be called late, or when nothing is due.
//! 3. The constructor of a machine takes everything that the machine will ever need.
//! 4. A malformed or unexpected message is counted and dropped. An event reports only what its owner can act on.
//! 5. Every queue has a bound in the protocol's `Config`.
//! 6. Messages on streams are framed; the driver adds and removes the frames.
//! 7. The quantum of a pacer is a train of datagrams. The machine returns up to that many datagrams before it has to
//!    wait. The driver passes those of one size to the kernel in one system call.
//! 8. The head of a datagram starts with eight octets that are unique to this datagram on this machine; a duplicate
//!    repeats them. The driver derives the encryption nonce from them. Their length is a constant of the protocol.

use alloc::vec::Vec;
use core::fmt;

use crate::{Instant, Load, Rate, Span};

/// State machine of one side of one transfer, without socket, file, clock or thread.
pub trait Endpoint {
    /// Events that the machine reports to its owner.
    type Event;

    /// Handles a received message. Returns the span of the object where its body belongs, or `None` to discard the
    /// body.
    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span>;
    /// Advances the time to `now` and runs expired timers.
    fn handle_timeout(&mut self, now: Instant);
    /// Handles a load sample of the machine's own host.
    fn handle_load(&mut self, _now: Instant, _load: Load) {}
    /// Sets the sending rate that the owner of the machine wants from now on.
    fn handle_rate(&mut self, _now: Instant, _rate: Rate) {}
    /// Reports that stream `stream` can take one more message without blocking.
    fn handle_room(&mut self, _now: Instant, _stream: u16) {}
    /// Reports that stream `stream` is broken. Messages in flight on it may or may not have arrived.
    fn handle_broken(&mut self, _now: Instant, _stream: u16) {}

    /// Returns the next message to send, or `None` until the next `handle_*` call or deadline.
    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit>;
    /// Returns the next event for the owner.
    fn poll_event(&mut self) -> Option<Self::Event>;
    /// Returns the deadline at which the driver should call `handle_timeout`.
    fn poll_timeout(&self) -> Option<Deadline>;

    /// Returns a hint for prefetching: the first span at or after `offset` that this machine will send in its current
    /// pass or still expects to receive. It has at most `len` bytes. Spans within a pass ascend.
    fn upcoming(&self, _offset: u64, _len: u32) -> Option<Span> {
        None
    }
}

/// Transport of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// Unreliable, unordered datagram.
    Datagram,
    /// Reliable, ordered stream with the given number.
    Stream(u16),
}

/// Message received from the peer: the octets of its head, and the length of its body.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Transport that the message arrived on.
    pub via: Via,
    /// Octets of the message itself. A body of the variant [`Body::Octets`] arrives as part of the head.
    pub head: &'a [u8],
    /// Number of bytes of the object that follow the head.
    pub len: u32,
}

/// Message to send to the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Transport to send the message on.
    pub via: Via,
    /// Octets of the message itself.
    pub head: Head,
    /// Data after the head.
    pub body: Body,
}

impl Transmit {
    /// Returns the octets in front of the object's bytes: the head, followed by the body if it is [`Body::Octets`].
    pub fn octets(&self) -> Vec<u8> {
        let mut octets = self.head.as_slice().to_vec();
        if let Body::Octets(body) = &self.body {
            octets.extend(body);
        }
        octets
    }
}

/// Data after the head of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// No data.
    None,
    /// Bytes of the object, which the driver reads from the source.
    Object(Span),
    /// Octets that the protocol itself encoded, such as a tally.
    Octets(Vec<u8>),
}

impl Body {
    /// Returns the number of bytes of the object in the body.
    pub const fn object_len(&self) -> u32 {
        match self {
            Self::Object(span) => span.len,
            Self::None | Self::Octets(_) => 0,
        }
    }
}

/// Head of a message: at most [`Head::MAX`] octets, stored inline.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Head {
    octets: [u8; Self::MAX],
    len: u8,
}

impl Head {
    /// Maximum length of a head, in octets.
    pub const MAX: usize = 30;

    /// Returns a head of `octets`. Panics if there are more than [`Head::MAX`].
    pub fn new(octets: &[u8]) -> Self {
        assert!(
            octets.len() <= Self::MAX,
            "a head has at most {} octets",
            Self::MAX
        );
        let mut head = Self {
            octets: [0; Self::MAX],
            len: octets.len() as u8,
        };
        head.octets[..octets.len()].copy_from_slice(octets);
        head
    }

    /// Returns the octets of the head.
    pub fn as_slice(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

/// Time at which a machine wants `handle_timeout` to be called, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// Time of the deadline.
    pub at: Instant,
    /// Reason, for traces.
    pub why: &'static str,
}
