//! Pair of connected TCP sockets on this host; a child process uses one of them.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use socket2::SockRef;

/// Returns both ends. No other process can have connected to the second.
pub(crate) fn connected_pair() -> io::Result<(TcpStream, OwnedFd)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let ours = TcpStream::connect(listener.local_addr()?)?;
    for _ in 0..STRANGERS_MAX {
        let (theirs, from) = listener.accept()?;
        if from == ours.local_addr()? {
            keep_short(&ours)?;
            keep_short(&theirs)?;
            return Ok((ours, theirs.into()));
        }
    }
    Err(io::Error::other(
        "other programs connect to a port that this one has opened for itself",
    ))
}

/// Limits the buffers in the kernel, so that no connection falls far behind the other connections of a transfer.
pub(crate) fn keep_short(tcp: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(tcp);
    tcp.set_nodelay(true)?;
    socket.set_send_buffer_size(BUFFER_BYTES)?;
    socket.set_recv_buffer_size(BUFFER_BYTES)
}

/// Connections of other programs that are ignored.
const STRANGERS_MAX: usize = 16;
/// Requested socket buffer in one direction, in bytes; the kernel doubles it.
const BUFFER_BYTES: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn octets_pass_in_both_directions() {
        let (mut ours, theirs) = connected_pair().unwrap();
        let mut theirs = TcpStream::from(theirs);
        ours.write_all(b"to").unwrap();
        theirs.write_all(b"from").unwrap();
        drop(theirs.shutdown(std::net::Shutdown::Write));
        let (mut there, mut here) = ([0; 2], Vec::new());
        theirs.read_exact(&mut there).unwrap();
        ours.read_to_end(&mut here).unwrap();
        assert_eq!((&there, &*here), (b"to", &b"from"[..]));
    }
}
