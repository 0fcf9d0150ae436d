//! Floor 2: the real world that runs machines: clock, sockets, trains, streams, blocks and disks.
//!
//! - [`clock`]: the only place that reads time; [`wait`]: sleeping until a moment or a sign; [`poller`]: on many descriptors
//! - [`udp`]: datagrams in trains, segmented on send and coalesced on receive; [`seal`]: their encryption
//! - [`ground`], [`disk`]: where files are read from, and written to; [`folder`]: folders that are changed
//! - [`durable`]: small files replaced whole, across power cuts; [`device`]: files read back past the page cache; [`disk`]: files beneath a root; [`metadata`]: what they have besides bytes; [`sparse`]: their holes; [`space`], [`naming`]: what still fits
//! - [`core`]: which core a thread runs on; [`heap`]: what it keeps; [`knock`], [`hops`], [`grants`]: what is in the way of a peer, and what this host allows; [`tun`], [`namespace`]: what the lab's links and hosts are made of
#![expect(
    unsafe_code,
    reason = "system calls live here, each behind a safe function"
)]
#![expect(clippy::disallowed_methods, reason = "this is the real world")]

pub mod block;
pub mod blocks;
pub mod clock;
pub mod competition;
pub mod control;
pub mod core;
pub mod device;
pub mod disk;
pub mod drive;
pub mod durable;
pub mod error;
pub mod flood;
pub mod folder;
pub mod grants;
pub mod ground;
pub mod heap;
pub mod hops;
pub mod identity;
pub mod interrupt;
pub mod knock;
pub mod memory;
pub mod metadata;
pub mod namespace;
pub mod naming;
pub mod poller;
pub mod pressure;
pub mod probe;
pub mod read_ahead;
pub mod seal;
pub mod space;
pub mod sparse;
pub mod store;
pub mod tcp;
pub mod tls;
pub mod train;
pub mod tun;
pub mod udp;
pub mod wait;

mod aead;
mod beneath;
mod hard_link;
mod mounts;
mod remove;
mod scatter;
mod sockaddr;
mod sockopt;
