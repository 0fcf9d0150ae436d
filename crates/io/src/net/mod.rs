//! Sockets, and the paths between hosts.
//!
//! - [`tcp`]: connections; [`udp`]: sockets for [`train`]s of datagrams; [`tun`], [`segment`]: devices of the lab
//! - [`dial`]: connections to single addresses; [`grants`]: limits of the kernel; [`ethtool`]: settings of interfaces
//! - [`tc_message`]: messages to the kernel about traffic control
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
pub mod segment;
pub mod tc_message;
pub mod tcp;
pub mod train;
pub mod tun;
pub mod udp;

pub(crate) mod scatter;
pub(crate) mod sockopt;

mod sockaddr;
