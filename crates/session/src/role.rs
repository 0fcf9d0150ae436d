//! Role of one side of a session, and the sockets that this side may use.

use std::net::SocketAddr;
use std::sync::mpsc::Receiver;

use crate::session::Session;

/// Datagrams of one session that arrived at a server's shared port.
pub type Arrivals = Receiver<(SocketAddr, Vec<u8>)>;

/// Further connections of a session, with their numbers.
pub type Joins = Receiver<(u8, Session)>;

/// Role of this side, with its source of sockets and connections.
#[derive(Debug)]
pub enum Role {
    /// The client, which connects from any port. Without datagrams if `false`.
    Client(bool),
    /// The server, where probes and connections arrive at shared ports.
    Server(Arrivals, Joins),
}
