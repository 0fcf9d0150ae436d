//! The contract between a protocol's machine and the world that runs it.
//!
//! A machine is *told* the time and *handed* heads; it answers with spans of an object and a deadline.
//! It has no socket, file, clock or thread. The law:
//!
//! 1. One `handle_*` (or those of one train), then drain: `poll_transmit` until `None`, `poll_event` until `None`,
//!    `poll_timeout` once. In that order: the last tally leaves before the owner hears that all is over.
//! 2. Time is an argument and never goes back. A timeout may come late, or when nothing is due.
//! 3. Whoever makes a machine gives it all it will ever need.
//! 4. A message that makes no sense is counted and dropped; what an owner can act on is an event.
//! 5. Every queue has a bound in its `Config`.
//! 6. Streams carry framed messages; the frame belongs to the world.
//! 7. A pacer's quantum is a train: the machine answers up to that many datagrams before it says
//!    "wait", and the world gathers those of one size into one system call.
//! 8. A datagram's head starts with eight octets that no other datagram of that machine has, unless
//!    it is the same datagram: the world encrypts under them. Its length is the protocol's constant.

use alloc::vec::Vec;
use core::fmt;

use crate::{Instant, Load, Rate, Span};

/// One side of one transfer: no socket, no file, no clock, no thread.
pub trait Endpoint {
    /// What its owner gets to hear.
    type Event;

    /// Takes a message in; answers where its body belongs, if it is wanted.
    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span>;
    /// Lets time pass.
    fn handle_timeout(&mut self, now: Instant);
    /// Hears how its own host is doing.
    fn handle_load(&mut self, _now: Instant, _load: Load) {}
    /// Hears that its owner wants another rate from now on.
    fn handle_rate(&mut self, _now: Instant, _rate: Rate) {}
    /// Hears that a stream would take one more message at once.
    fn handle_room(&mut self, _now: Instant, _stream: u16) {}
    /// Hears that a stream broke: what it had may have come or not, and nothing more will.
    fn handle_broken(&mut self, _now: Instant, _stream: u16) {}

    /// The next message to send, or nothing until the next `handle_*` or deadline.
    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit>;
    /// The next thing its owner should hear.
    fn poll_event(&mut self) -> Option<Self::Event>;
    /// When it wants `handle_timeout` to be called.
    fn poll_timeout(&self) -> Option<Deadline>;

    /// A hint: the first span at or after `offset`, of at most `len` bytes, that it means to send in
    /// the pass it is in, or that it still waits for. Order within a pass is ascending.
    fn upcoming(&self, _offset: u64, _len: u32) -> Option<Span> {
        None
    }
}

/// How a message crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// Alone, and perhaps never.
    Datagram,
    /// In order and surely, on the stream of this number.
    Stream(u16),
}

/// What came from the peer: the head's octets, and how long the body behind it is.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// How it came.
    pub via: Via,
    /// The message's own bytes; [`Body::Words`] arrive as a part of it.
    pub head: &'a [u8],
    /// Bytes of the object behind the head.
    pub len: u32,
}

/// What is to be sent to the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// How it is to cross.
    pub via: Via,
    /// The message's own bytes.
    pub head: Head,
    /// What follows them.
    pub body: Body,
}

impl Transmit {
    /// What arrives in front of the object's bytes: the head, and the protocol's own words as a part of it.
    pub fn octets(&self) -> Vec<u8> {
        let mut octets = self.head.as_slice().to_vec();
        if let Body::Words(words) = &self.body {
            octets.extend(words);
        }
        octets
    }
}

/// What follows a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Nothing.
    None,
    /// Bytes of the object, which the world gathers.
    Object(Span),
    /// The protocol's own words, say a tally.
    Words(Vec<u8>),
}

impl Body {
    /// How many bytes of the object it has.
    pub const fn object_len(&self) -> u32 {
        match self {
            Self::Object(span) => span.len,
            Self::None | Self::Words(_) => 0,
        }
    }
}

/// At most [`Head::MAX`] octets, held inline.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Head {
    octets: [u8; Self::MAX],
    len: u8,
}

impl Head {
    /// The longest head there is.
    pub const MAX: usize = 30;

    /// A head of `octets`; more than [`Head::MAX`] is a mistake of the protocol's author.
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

    /// Its octets.
    pub fn as_slice(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

/// When a machine wants to be woken, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// The moment.
    pub at: Instant,
    /// The reason, for the trace.
    pub why: &'static str,
}
