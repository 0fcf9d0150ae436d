//! Slabs between two gateways (SLaBS, sections III and IV), as state machines without I/O (floor 2): bytes of many
//! sessions are gathered into slabs, which are sent as bursts over one channel.
//!
//! Bytes are stored in pages, each of a single session. A slab takes consecutive page numbers. The pages of all slabs
//! form the endless object of this protocol. So a datagram has its place even before its slab is announced. A control
//! message on the stream announces the slab: the session of each run of pages (section IV, slab control SPDU). The
//! receiver answers once it has taken custody of the whole slab. Until then the sender keeps it.
//!
//! Decisions that the paper leaves open:
//!
//! - The sender may use only pages for which the receiver has granted credit: the flow credits of section II.
//! - Each session has a window, the bytes that the other gateway can store. A session that is not read therefore
//!   blocks no other session.
//! - Losses are repaired per packet. Every datagram has a number of its own, its turn. A channel keeps order, so a
//!   gap in the turns is a loss. When nothing is left to send, the sender reports the number of turns.
//! - A slab is formed in three cases: the data fills one; the channel is idle and the oldest byte has waited long
//!   enough; the previous slab is about to end. Sessions with little data have slabs of their own, which go first.
//! - Messages on the stream are numbered and kept until the peer has received them. So a link survives the loss of
//!   its connection, and neither sessions nor slabs notice.
//!
//! - [`config`]: parameters on which both sides agree; [`wire`]: message formats; [`peer`]: protocol violations
//! - [`sender`], [`receiver`]: pages of one direction; [`flow`]: bytes of one session; [`form`]: formation of slabs
//! - [`token`]: gateways that take turns on one channel
//! - [`message_queue`]: messages that survive their connection
//! - [`link`]: both directions and all sessions of two gateways
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod config;
pub mod flow;
pub mod form;
pub mod link;
pub mod message_queue;
pub mod peer;
pub mod receiver;
pub mod sender;
pub mod token;
pub mod wire;

#[cfg(test)]
mod tests;

pub use config::{Config, ConfigError};
pub use form::Plan;
pub use link::{Event, Link};
pub use peer::PeerMisbehaved;
pub use receiver::Receiver;
pub use sender::Sender;
pub use wire::{Record, SessionId};
