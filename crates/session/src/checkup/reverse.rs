//! Test of the direction from the peer to this host, where no datagram from this host arrives.
//!
//! The probes of [`crate::path`] are answers, so they do not tell whether the other direction
//! works.

use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::error::Error as World;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::{Watch, wait};
use lighthaul_io::net::probe::{LENGTHS, connect, connection_of};

use crate::checkup::message::Message;
use crate::error::Error;
use crate::session::Session;

/// Sends a few datagrams to a port of the peer.
pub(super) fn send(session: &Session, port: u16) -> Result<(), Error> {
    let peer = SocketAddr::new(session.peer_address().ip(), port);
    let udp = connect(session.control.local(), peer).map_err(failed)?;
    for _ in 0..COUNT {
        udp.send(&datagram(session), None).map_err(failed)?;
    }
    Ok(())
}

/// Asks the peer for datagrams. Returns true if one arrives.
pub(super) fn receive(session: &Session, rtt: Duration) -> Result<bool, Error> {
    let mut local = session.control.local();
    local.set_port(0);
    let udp = connect(local, session.peer_address()).map_err(failed)?;
    // a firewall here lets in datagrams that look like answers
    udp.send(&datagram(session), None).map_err(failed)?;
    let port = udp.local_addr().map_err(failed)?.port();
    session.say(&Message::SendTo { port })?;
    let clock = Clock::start();
    let deadline = Instant::ZERO + TIMEOUT + rtt * 2;
    let mut buffer = vec![0; 1 << 16];
    let mut drops = 0;
    while clock.now() < deadline {
        let Some(got) = udp.receive_into(&mut buffer, &mut drops).map_err(failed)? else {
            let mut watches = [Watch::read(udp.as_raw_fd())];
            wait(clock, &mut watches, deadline).map_err(failed)?;
            continue;
        };
        if connection_of(&buffer[..got.len]) == Some(session.secrets.data_connection()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns a datagram of the shortest probe length, with the session's connection number.
fn datagram(session: &Session) -> Vec<u8> {
    let mut octets = session.secrets.data_connection().to_be_bytes().to_vec();
    octets.resize(LENGTHS[0], 0);
    octets
}

fn failed(error: std::io::Error) -> Error {
    World::world("cannot test datagrams from the peer", error).into()
}

/// Datagrams that are sent, as some may be lost.
const COUNT: usize = 4;
/// Longest wait for a datagram, besides the round-trip time.
const TIMEOUT: Duration = Duration::from_millis(500);
