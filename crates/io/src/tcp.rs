//! Reaching a host over TCP, and being reached.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::error::Error;

/// How long one address gets to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a peer may stay silent during the handshake.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(15);

/// A connection to the first address of `host` that answers on `port`.
pub fn connect(host: &str, port: u16) -> Result<TcpStream, Error> {
    let addresses = (host, port)
        .to_socket_addrs()
        .map_err(|error| Error::Network(format!("the name {host} cannot be resolved: {error}")))?;
    let mut last = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(tcp) => return patient(tcp),
            Err(error) => last = Some((address, error)),
        }
    }
    let why = last.map_or_else(
        || "it has no address".to_owned(),
        |(address, error)| format!("{address}: {error}"),
    );
    Err(Error::Network(format!(
        "{host} cannot be reached: {why}; is `lighthaul serve` running there?"
    )))
}

/// The round-trip time that TCP has seen so far.
pub fn round_trip(tcp: &TcpStream) -> Duration {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: info is valid for writes of len octets.
    let status = unsafe {
        let fd = std::os::fd::AsRawFd::as_raw_fd(tcp);
        libc::getsockopt(
            fd,
            libc::SOL_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if status != 0 {
        return Duration::ZERO;
    }
    // SAFETY: the kernel filled it, and all zeroes would be valid too.
    let info = unsafe { info.assume_init() };
    Duration::from_micros(info.tcpi_rtt.into())
}

/// A listener on `address`.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address)
}

/// Sets the limits that a connection has during the handshake.
pub fn patient(tcp: TcpStream) -> Result<TcpStream, Error> {
    let set = |tcp: &TcpStream| {
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(HANDSHAKE_PATIENCE))?;
        tcp.set_write_timeout(Some(HANDSHAKE_PATIENCE))
    };
    set(&tcp).map_err(|error| Error::world("setting up the connection", error))?;
    Ok(tcp)
}
