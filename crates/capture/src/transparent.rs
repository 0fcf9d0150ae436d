//! Redirected connections and their original destinations.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

use lighthaul_io::net::tcp::begin_unpaced;
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::kernel::error::{Error, Task};
use crate::script::Redirect;
use crate::target::Target;

/// Listeners to which the kernel redirects connections. They have loopback addresses, so other hosts cannot connect.
#[derive(Debug)]
pub struct Listeners {
    /// Listener for IPv4.
    pub v4: TcpListener,
    /// Listener for IPv6, if the kernel supports it.
    pub v6: Option<TcpListener>,
}

impl Listeners {
    /// Opens non-blocking listeners on free ports.
    pub fn open() -> Result<Self, Error> {
        let v4 = listen(Ipv4Addr::LOCALHOST.into()).map_err(Error::world(Task::Listen))?;
        let v6 = match listen(Ipv6Addr::LOCALHOST.into()) {
            Ok(listener) => Some(listener),
            Err(why) if is(&why, &[Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL]) => None,
            Err(why) => return Err(Error::world(Task::Listen)(why)),
        };
        Ok(Self { v4, v6 })
    }

    /// Returns the address families that are captured, with the ports of their listeners.
    pub(super) fn redirects(&self) -> Result<Vec<Redirect>, Error> {
        let redirect = |listener: &TcpListener| {
            let address = listener.local_addr().map_err(Error::world(Task::Listen))?;
            Ok(Redirect {
                is_v6: address.is_ipv6(),
                port: address.port(),
            })
        };
        let v6 = self.v6.iter();
        std::iter::once(&self.v4).chain(v6).map(redirect).collect()
    }
}

/// Returns the original destination of an accepted connection, or nothing for a direct connection to the listener.
/// Fails for a connection to port zero.
pub fn wanted(stream: &TcpStream) -> io::Result<Option<Target>> {
    let here = stream.local_addr()?;
    if !here.ip().is_loopback() {
        // TPROXY does not change the packets
        return target(here).map(Some);
    }
    let socket = SockRef::from(stream);
    let meant = if here.is_ipv6() {
        socket.original_dst_v6()
    } else {
        socket.original_dst_v4()
    };
    match meant {
        Ok(meant) => {
            let meant = meant.as_socket().filter(|meant| *meant != here);
            meant.map(target).transpose()
        }
        // a connection without tracking was not redirected
        Err(why) if is(&why, &[Errno::NOENT, Errno::NOPROTOOPT]) => Ok(None),
        Err(why) => Err(why),
    }
}

fn target(address: SocketAddr) -> io::Result<Target> {
    Target::try_from(address).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))
}

fn listen(address: IpAddr) -> io::Result<TcpListener> {
    let address = SocketAddr::new(address, 0);
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    // before the transparent option, which would hide that the address family is disabled
    socket.bind(&address.into())?;
    if address.is_ipv6() {
        socket.set_ip_transparent_v6(true)?;
    } else {
        socket.set_ip_transparent_v4(true)?;
    }
    begin_unpaced(&socket);
    socket.listen(WAITING_MAX)?;
    Ok(socket.into())
}

fn is(why: &io::Error, errors: &[Errno]) -> bool {
    Errno::from_io_error(why).is_some_and(|why| errors.contains(&why))
}

/// Length of the accept queue; the kernel limits it.
const WAITING_MAX: i32 = 4096;
