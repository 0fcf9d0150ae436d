//! SABUL (section 3 of its paper): datagrams at a rate that adapts to loss, with feedback on a stream.
//!
//! - [`config`]: parameters on which both sides agree; [`wire`]: message formats
//! - [`sender`], [`receiver`]: the two state machines, each with a loss list
//! - [`rate`]: rate control by the paper's rules or by a quicker and fairer set; [`sample`]: measurements for the
//!   control; [`competition`]: signs of other flows; [`flow`]: flow window
//!
//! Decisions that the paper leaves open: Packets are numbered from the first of the object to its last, so the 32-bit
//! number never wraps. The loss of the last packets in flight is detected because the sender reports its progress on
//! the stream: at the end, and after a long time without feedback. Losses detected together are sent in one NAK and
//! count individually. The rate does not rise while the largest flow window limits the sender, rather than the rate.
pub mod competition;
pub mod config;
pub mod flow;
pub mod rate;
pub mod receiver;
pub mod sample;
pub mod sender;
mod swift;
pub mod wire;

pub use config::{Config, ConfigError, Framing, Memory, Mode};
pub use receiver::{Receiver, ReceiverEvent};
pub use sender::{PeerMisbehaved, Sender, SenderEvent};
pub use wire::PACKETS_MAX;
