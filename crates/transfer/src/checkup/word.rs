//! What the two sides of a checkup say to each other.

use std::net::SocketAddr;

use lighthaul_io::net::grants::Grants;
use serde::{Deserialize, Serialize};

use crate::sentence;

/// One word of a checkup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// What time it is, in nanoseconds since 1970; asked with zero.
    Time(u64),
    /// The path is to be looked at now.
    Explore,
    /// What the answering side is like.
    Facts(Facts),
    /// Datagrams are to be sent to this port, from which none arrived.
    Try(u16),
    /// That was all.
    End,
}

/// What one side is like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The version of the program.
    #[serde(deserialize_with = "sentence::read")]
    pub version: String,
    /// The longest datagram of this side that arrived at the other; zero if none did.
    pub datagram_len: u16,
    /// The receive buffer that a UDP socket got, in bytes.
    pub receive_bytes: u64,
    /// The send buffer that it got.
    pub send_bytes: u64,
    /// To how many bytes TCP's receive buffer may grow.
    pub tcp_receive_bytes: u64,
    /// And its send buffer.
    pub tcp_send_bytes: u64,
    /// The kernel cuts trains into datagrams.
    pub segments: bool,
    /// And coalesces them.
    pub coalesces: bool,
}

impl Facts {
    /// This side's, for sockets of `address`.
    pub fn of(address: SocketAddr, datagram_len: usize) -> Self {
        let grants = Grants::find(address);
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            datagram_len: u16::try_from(datagram_len).unwrap_or(u16::MAX),
            receive_bytes: grants.receive_bytes,
            send_bytes: grants.send_bytes,
            tcp_receive_bytes: grants.tcp_receive_bytes,
            tcp_send_bytes: grants.tcp_send_bytes,
            segments: grants.segments,
            coalesces: grants.coalesces,
        }
    }
}
