//! Sockets, and the paths between hosts.
//!
//! - [`tcp`]: connections; [`udp`]: sockets for [`train`]s of datagrams; [`tun`]: devices of the lab
//! - [`dial`]: connections to single addresses; [`grants`]: limits of the kernel; [`ethtool`]: settings of interfaces
//! - [`probe`], [`flood`], [`hops`]: measurement of a path
//! - [`peer_user`]: user at the other end of a Unix socket
//! - `scatter`: bodies received in place; `sockaddr`, `sockopt`: structures of the kernel
pub mod dial;
pub mod ethtool;
pub mod flood;
pub mod grants;
pub mod hops;
pub mod peer_user;
pub mod probe;
pub mod tcp;
pub mod train;
pub mod tun;
pub mod udp;

pub(crate) mod scatter;
pub(crate) mod sockopt;

mod sockaddr;
