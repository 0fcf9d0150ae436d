//! Floor 2: operating system services for machines: clocks, sockets, streams, files, encryption.
//!
//! - [`clock`]: all clocks; [`wait`]: sleep until a deadline or an event; [`poller`]: many
//!   descriptors
//! - [`udp`]: datagrams in trains, segmented on send and coalesced on receive; [`seal`]: encryption
//! - [`tcp`], [`tls`], [`control`]: connections, their handshake, and framed streams over them
//! - [`drive`]: event loop of a machine; [`store`]: access to its object's bytes, with
//!   [`read_ahead`] (files of a sender), [`blocks`] (files of a receiver) and [`memory`]
//! - [`ground`], [`disk`]: files to read and to write beneath a folder; [`folder`]: open folders
//! - [`metadata`]: owner, mode, times and attributes; [`sparse`]: holes; [`space`], [`name_rules`]:
//!   limits of a file system
//! - [`durable`]: atomic replacement of small files; [`device`]: reads without the page cache
//! - [`affinity`], [`heap`]: processor and memory of threads; [`dial`], [`hops`], [`grants`],
//!   [`probe`], [`flood`]: diagnosis of a path and this host; [`tun`], [`namespace`]: links and
//!   hosts of the lab
#![expect(
    unsafe_code,
    reason = "system calls live here, each behind a safe function"
)]
#![expect(clippy::disallowed_methods, reason = "this is the real world")]

pub mod affinity;
pub mod block;
pub mod blocks;
pub mod clock;
pub mod competition;
pub mod control;
pub mod device;
pub mod dial;
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
pub mod memory;
pub mod metadata;
pub mod name_rules;
pub mod namespace;
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
