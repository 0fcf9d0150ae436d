//! Slabs between two gateways (SLaBS, sections III and IV): the bytes of many sessions, gathered into slabs and burst
//! over one channel.
//!
//! Bytes lie in pages, each of one session. When a slab is formed, its pages get the next numbers; with their packets they
//! are the object of this protocol, which never ends, so that a datagram says where it belongs before anybody knows
//! which slab it is of. Out of band, on the stream, a message says which sessions a slab's pages are of (section IV, slab
//! control SPDU); the receiver answers once it has custody of all of it, and until then the sender keeps it.
//!
//! What the paper leaves open is done so:
//!
//! - The sender may use as many pages as the receiver has said it has room for: the flow credits of section II.
//! - No session may have more under way than the other gateway has a place for, so that one that is not read holds up no other.
//! - Losses are repaired packet by packet. Every datagram has a number of its own, its turn, and a channel keeps order: a gap
//!   in the turns is a loss. When nothing is left to send, the sender says how many turns there were.
//! - A slab is formed when there is enough for one, when its oldest byte has waited for long enough while the channel was idle, or when
//!   the slab before is about to end; a session that says little has slabs of its own, which go first.
//! - Messages on the stream are numbered and kept until the peer has heard them, so that a link goes on where it was
//!   when its connection is made anew: neither sessions nor slabs notice.
//!
//! - [`config`]: what both sides agree on; [`wire`]: what crosses; [`peer`]: what an honest one never says
//! - [`sender`], [`receiver`]: one direction's pages; [`flow`]: one session's bytes; [`form`]: which of them make a slab
//! - [`station`]: a gateway of which only lengths exist
//! - [`token`]: gateways that take turns on one channel
//! - [`mail`]: messages that survive their connection; [`link`]: both directions, and all sessions, between two gateways
pub mod config;
pub mod flow;
pub mod form;
pub mod link;
pub mod mail;
pub mod peer;
pub mod receiver;
pub mod sender;
pub mod station;
pub mod token;
pub mod wire;

pub use config::{Config, Misuse};
pub use form::Plan;
pub use link::{Event, Link};
pub use peer::PeerMisbehaved;
pub use receiver::Receiver;
pub use sender::Sender;
pub use station::Station;
pub use wire::{Record, SessionId};
