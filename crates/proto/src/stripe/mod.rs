//! Striping of an object over several streams: each packet is sent on any stream that has room (Quanta's parallel
//! TCP).
//!
//! The paper only says that a buffer is divided and sent over several sockets. With a fixed division the transfer
//! waits for the slowest stream. Here a stream that can take data gets the next packet. Packets of a broken stream
//! are resent on the others. The number of streams in use is measured: it doubles as long as that raises the
//! throughput.
//!
//! - [`config`]: parameters on which both sides agree; [`wire`]: message formats
//! - [`sender`], [`receiver`]: the two state machines
//! - [`width`]: number of streams in use
pub mod config;
pub mod receiver;
pub mod sender;
pub mod width;
pub mod wire;

pub use config::{Config, ConfigError, PACKETS_MAX, PacketLayout, STREAMS_MAX};
pub use receiver::{Receiver, ReceiverEvent};
pub use sender::{PeerMisbehaved, Sender, SenderEvent};
pub use width::Width;
