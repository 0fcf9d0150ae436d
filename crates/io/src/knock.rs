//! Reaching one address at a time, and saying how that went.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use lighthaul_base::Instant;

use crate::clock::Clock;

/// The addresses that `host` has, each with `port`.
pub fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.collect())
}

/// A connection to `address`, and how long its answer took.
pub fn knock(address: SocketAddr, patience: Duration) -> io::Result<(TcpStream, Duration)> {
    let clock = Clock::start();
    let tcp = TcpStream::connect_timeout(&address, patience)?;
    Ok((tcp, clock.now().since(Instant::ZERO)))
}
