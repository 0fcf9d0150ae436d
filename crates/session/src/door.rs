//! How one side of a session comes by sockets and further connections.

use std::net::SocketAddr;
use std::sync::mpsc::Receiver;

use crate::session::Session;

/// Datagrams that came to a server's shared port for one session.
pub type Arrivals = Receiver<(SocketAddr, Vec<u8>)>;

/// Connections that came for a session, by their numbers.
pub type Joins = Receiver<(u8, Session)>;

/// How our side of a session comes by a socket.
#[derive(Debug)]
pub enum Door<'a> {
    /// We call: any port will do. Without datagrams if `false`.
    Caller(bool),
    /// We were called: probes come in by the shared port.
    Called(&'a Arrivals, &'a Joins),
}
