//! Messages of a checkup.

use std::net::SocketAddr;

use lighthaul_io::net::grants::Grants;
use serde::{Deserialize, Serialize};

use crate::checkup::interface::InterfaceFacts;
use crate::error::Error;
use crate::fault::PeerFault;
use crate::peer_text;
use crate::topic::Topic;

/// One message of a checkup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Clock reading of the sender.
    Time {
        /// Nanoseconds since 1970; zero in a request for the peer's clock.
        nanos: u64,
    },
    /// Start of the exploration of the path.
    Explore,
    /// Facts of the answering host.
    Facts(HostFacts),
    /// Request for datagrams to a port that received none.
    SendTo {
        /// Port number.
        port: u16,
    },
    /// End of the checkup.
    End,
    /// Request to count the short datagrams that follow, and the answer of a peer that is ready.
    Count,
    /// End of the counted datagrams, and the answer with the number that arrived.
    Counted {
        /// Different datagrams that arrived; zero from the sender.
        datagrams: u16,
    },
}

impl Topic for Message {
    const NUMBER: u8 = 5;
    type Request = ();
}

/// Facts of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Version of the program.
    #[serde(deserialize_with = "peer_text::read")]
    pub version: String,
    /// Longest datagram from this host that arrived at the other host; zero if no datagram arrived.
    pub datagram_len: u16,
    /// Receive buffer that the kernel granted to a UDP socket, in bytes.
    pub receive_bytes: u64,
    /// Send buffer that the kernel granted to a UDP socket, in bytes.
    pub send_bytes: u64,
    /// Upper bound of TCP's receive buffer, in bytes.
    pub tcp_receive_bytes: u64,
    /// Upper bound of TCP's send buffer, in bytes.
    pub tcp_send_bytes: u64,
    /// True if the kernel cuts batches into datagrams (UDP GSO).
    pub segments: bool,
    /// True if the kernel coalesces datagrams (UDP GRO).
    pub coalesces: bool,
    /// Interface that carries the session, if it is known.
    pub interface: Option<InterfaceFacts>,
}

impl HostFacts {
    /// Returns the facts of this host, for sockets of `address`.
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
            interface: InterfaceFacts::of(address),
        }
    }
}

/// Returns the error of a peer whose message does not belong to a checkup, or not to this step.
pub(super) fn unexpected() -> Error {
    PeerFault::Unexpected("the next message of a checkup").into()
}
