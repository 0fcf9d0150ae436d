//! Cluster of elements that share one channel (SLaBS, section III, last paragraph). Each element has the whole rate
//! for a part of the time. A token determines which element may send.
//!
//! Decisions that the paper leaves open:
//!
//! - Every few milliseconds each element sends a heartbeat ("beat"): its view of the token, and whether it has data
//!   to send. The token circulates among elements with data. If there are none, it stays where it is.
//! - The token is sent together with the number of the target's last beat. The target refuses the token if that beat
//!   is too old. So a delayed token is void, without synchronized clocks.
//! - An element has the channel for at most one slot, and announces it at the start. It passes the token on a guard
//!   time before the end of the slot, so that the channel is not idle. For at most that time two elements hold the
//!   channel.
//! - If nothing is heard of the token for longer than an element can hold it, the lowest living element proposes a
//!   new generation. All living elements must agree, and then never take an older token. An element with newer
//!   information refuses. A holder that receives a proposal raises the generation of its own token, which voids the
//!   proposal.
//! - Of two tokens the one with the lower generation is dropped as soon as both are known. Two tokens exist only as
//!   long as a partition of the cluster lasts. An element that cannot be heard counts as dead.
//!
//! - [`config`]: parameters on which all elements agree; [`wire`]: message formats
//! - [`element`]: one element; [`peers`]: its knowledge of the others
pub mod config;
pub mod element;
pub mod peers;
pub mod wire;

pub use config::Config;
pub use element::{Element, Slot};
pub use wire::{ElementMessage, Generation, Mark, MessageBody};
