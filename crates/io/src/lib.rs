//! Floor 2: operating system services for machines.
//!
//! - Time and waiting: [`clock`], [`wait`], [`poller`]. Sockets: [`udp`], [`tcp`], [`tls`], [`control`], [`seal`], [`cipher`].
//! - The event loop of a machine: [`drive`]; its object's bytes: [`store`], [`read_ahead`], [`blocks`], [`memory`].
//! - Files: [`ground`], [`disk`], [`folder`], [`version`], [`meta`], [`metadata`], [`sparse`], [`space`], [`durable`], [`watched_file`].
//! - The host and the path: [`affinity`], [`heap`], [`dial`], [`hops`], [`grants`], [`probe`], [`tun`], [`namespace`].
#![expect(unsafe_code, reason = "system calls, behind safe functions")]
#![expect(clippy::disallowed_methods, reason = "this is the real world")]

pub mod affinity;
pub mod block;
pub mod blocks;
pub mod cipher;
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
pub mod meta;
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
pub mod version;
pub mod wait;
pub mod watched_file;

mod aead;
mod beneath;
mod hard_link;
mod mounts;
mod remove;
mod scatter;
mod sockaddr;
mod sockopt;
