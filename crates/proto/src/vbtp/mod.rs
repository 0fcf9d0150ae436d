//! Varying-Bandwidth Transport Protocol (section 4 of the VBLS paper): rates that follow a TRC vector, and selective
//! retransmission (ARQ).
//!
//! The sender transmits at the rate that the circuit has at each time (section 4.1). During the transfer the receiver
//! reports missing packets, which are resent on the circuit. It also acknowledges packets from time to time, which
//! only limits how far the sender may run ahead (section 4.2). The circuit is released at its end, or as soon as
//! everything was sent. Packets still missing then (the tail) are sent on the stream (sections 4.2 and 4.3). Another
//! object can follow on the circuit at once, while the receiver reports what the tail of the first one lacks.
//!
//! Decisions that the paper leaves open:
//!
//! - A circuit keeps the order of packets, so a gap in the packet numbers is a loss. Each resend has a number of its
//!   own, its turn, and every datagram carries the number of turns so far. So the next datagram also reveals the loss
//!   of a resend, without a timer.
//! - When the sender has nothing more to send, it asks on the stream (a question) for the missing packets. This finds
//!   losses that no later datagram revealed, and losses that did not fit in a bounded list.
//! - A packet is written to its place when it arrives. So the receiver's resequencing buffer is only a limit on the
//!   distance from the first missing packet. ACKs cover whole blocks, the unit of writing.
//!
//! - [`config`]: parameters on which both sides agree; [`wire`]: message formats
//! - [`sender`], [`receiver`]: the two state machines; [`peer`]: protocol violations of the peer
pub mod config;
pub mod peer;
pub mod receiver;
pub mod sender;
pub mod wire;

pub use config::{Config, ConfigError, Framing, PACKETS_MAX};
pub use peer::PeerMisbehaved;
pub use receiver::{Receiver, ReceiverEvent};
pub use sender::{Sender, SenderEvent};
