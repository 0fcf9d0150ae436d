//! Whether datagrams pass from there to here, where none from here gets there and so none is answered.

use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::error::Error as World;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::{Watch, wait};
use lighthaul_io::net::probe::{LENGTHS, connect, connection_of};

use crate::checkup::answer::say;
use crate::checkup::word::Word;
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

/// Asks for datagrams; answers whether one came.
pub(super) fn hear(session: &Session, rtt: Duration) -> Result<bool, Error> {
    let mut local = session.control.local();
    local.set_port(0);
    let udp = connect(local, session.peer_address()).map_err(failed)?;
    // a firewall here lets in what it takes for an answer
    udp.send(&datagram(session), None).map_err(failed)?;
    let port = udp.local_addr().map_err(failed)?.port();
    say(session, Word::Try(port))?;
    let clock = Clock::start();
    let deadline = Instant::ZERO + PATIENCE + rtt * 2;
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

/// The shortest that transfers use, marked with the number of our data.
fn datagram(session: &Session) -> Vec<u8> {
    let mut octets = session.secrets.data_connection().to_be_bytes().to_vec();
    octets.resize(LENGTHS[0], 0);
    octets
}

fn failed(error: std::io::Error) -> Error {
    World::world("looking at the way back", error).into()
}

/// As many are sent, since one may be lost.
const COUNT: usize = 4;
/// How long they may take, besides the round trip.
const PATIENCE: Duration = Duration::from_millis(500);
