//! Flow of the kernel's TCP, and small TCP transfers.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::net::tcp::{connect, connect_by, listen};

use super::host_pair::{HostPair, SOURCE, TARGET};
use super::meter::Meter;
use super::plan::Mice;
use super::together::together;
use crate::error::{Error, Result};

/// Runs a TCP flow with the given congestion control.
pub(crate) fn run(hosts: &HostPair, congestion: &str, meter: &Meter) -> Result<()> {
    let [near, far] = pair(hosts, Some(congestion))?;
    for end in [&near, &far] {
        end.set_read_timeout(Some(LOOK))
            .and_then(|()| end.set_write_timeout(Some(LOOK)))
            .map_err(Error::world("set up a TCP connection"))?;
    }
    thread::scope(|scope| {
        scope.spawn(|| pour(near, meter));
        drain(far, meter);
    });
    Ok(())
}

/// Runs small transfers that start at regular intervals. Returns the duration of each, from the
/// connection's start until the receiver has closed it.
pub(crate) fn mice(hosts: &HostPair, plan: &Mice) -> Result<Vec<Duration>> {
    let begun = hosts.clock.now().since(Instant::ZERO);
    let mouse = |nth: u32| {
        hosts.wait(begun + plan.every * nth)?;
        let (listener, address) = listener(hosts)?;
        let began = hosts.clock.now();
        let near = call(hosts, address, Some(&plan.congestion))?;
        let what = "run a small transfer in the lab";
        let (far, _) = listener.accept().map_err(Error::world(what))?;
        thread::scope(|scope| {
            scope.spawn(|| swallow(far));
            send(near, plan).map_err(Error::world(what))
        })?;
        Ok(hosts.clock.now().since(began))
    };
    together((0..plan.transfers).map(|nth| move || mouse(nth)))
}

/// Sends a small transfer, and waits until the receiver closes the connection.
fn send(mut tcp: TcpStream, plan: &Mice) -> std::io::Result<()> {
    tcp.set_read_timeout(Some(MOUSE_PATIENCE))?;
    tcp.set_write_timeout(Some(MOUSE_PATIENCE))?;
    tcp.write_all(&vec![0x5a; plan.bytes as usize])?;
    tcp.shutdown(Shutdown::Write)?;
    tcp.read(&mut [0]).map(|_| ())
}

/// Receives a small transfer, and closes the connection.
fn swallow(mut tcp: TcpStream) {
    let mut octets = vec![0; PIECE_LEN];
    while tcp.read(&mut octets).is_ok_and(|len| len > 0) {}
}

/// Connects the sending host to the receiving one. Returns both ends. Uses this congestion control,
/// or that of a copy if `None`.
pub(crate) fn pair(hosts: &HostPair, congestion: Option<&str>) -> Result<[TcpStream; 2]> {
    let (listener, address) = listener(hosts)?;
    let near = call(hosts, address, congestion)?;
    let (far, _) = listener
        .accept()
        .map_err(Error::world("accept a TCP connection in the lab"))?;
    Ok([near, far])
}

/// Listens in the receiving host.
fn listener(hosts: &HostPair) -> Result<(TcpListener, SocketAddr)> {
    let address = SocketAddr::from((hosts.target()?, 0));
    let listener = hosts.lab.within(TARGET, || listen(address))?;
    let own = listener.local_addr();
    own.map(|own| (listener, own))
        .map_err(Error::world("listen in the lab"))
}

/// Connects from the sending host.
fn call(hosts: &HostPair, to: SocketAddr, congestion: Option<&str>) -> Result<TcpStream> {
    let call = || match congestion {
        Some(name) => {
            let tcp = connect_by(name, to)?;
            tcp.set_nodelay(true)?;
            Ok(tcp)
        }
        None => connect(&to.ip().to_string(), to.port()).map_err(std::io::Error::other),
    };
    hosts.lab.within(SOURCE, call)
}

/// Sends as much as the connection takes.
fn pour(mut tcp: TcpStream, meter: &Meter) {
    let octets = vec![0x5a; PIECE_LEN];
    while !meter.is_over() {
        match tcp.write(&octets) {
            Err(error) if !waits(&error) => return,
            Ok(_) | Err(_) => {}
        }
    }
}

/// Receives and counts all data.
fn drain(mut tcp: TcpStream, meter: &Meter) {
    let mut octets = vec![0; PIECE_LEN];
    while !meter.is_over() {
        match tcp.read(&mut octets) {
            Ok(0) => return,
            Ok(len) => meter.add(len as u64),
            Err(error) if waits(&error) => {}
            Err(_) => return,
        }
    }
}

fn waits(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Interval at which a flow checks for its end.
const LOOK: Duration = Duration::from_millis(100);
/// Time after which a small transfer counts as failed.
const MOUSE_PATIENCE: Duration = Duration::from_mins(2);
/// Size of a write or read, in bytes.
const PIECE_LEN: usize = 256 << 10;
