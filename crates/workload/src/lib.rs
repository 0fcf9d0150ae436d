//! Floor 3: workloads for machines in virtual time. Figures, random worlds and tests run them; no driver of real
//! transfers does.
//!
//! - [`feed`]: a sender of a message stream, with generated messages
//! - [`station`]: a gateway with its programs, whose bytes are only counted
//! - [`cluster`]: gateways that take turns on a channel, with the network between them
//! - [`circuit`]: a copy of several objects on one circuit
//! - [`tcp`]: flows of CUBIC and BBR, as neighbors on a shared path
#![no_std]
extern crate alloc;

pub mod circuit;
pub mod cluster;
pub mod feed;
pub mod station;
pub mod tcp;

pub use circuit::{CircuitCopy, CircuitReceiver, CircuitSender};
pub use cluster::Cluster;
pub use feed::Feed;
pub use station::Station;
