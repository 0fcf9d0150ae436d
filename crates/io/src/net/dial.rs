//! Connections to single addresses, with the time of each attempt.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use lighthaul_base::Instant;

use crate::host::clock::Clock;

/// Resolves `host` to its addresses, each with `port`.
pub fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.collect())
}

/// Connects to `address` within `patience`. Returns the connection and the time that it took.
pub fn dial(address: SocketAddr, patience: Duration) -> io::Result<(TcpStream, Duration)> {
    let clock = Clock::start();
    let tcp = TcpStream::connect_timeout(&address, patience)?;
    Ok((tcp, clock.now().since(Instant::ZERO)))
}
