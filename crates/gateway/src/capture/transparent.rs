//! Connections that were meant for somebody else, and for whom.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

use lighthaul_io::net::tcp::begin_unpaced;
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::capture::script::Redirect;
use crate::kernel::error::Error;
use crate::target::Target;

/// Where the kernel hands captured connections over: at the loopback addresses, so that no other host can call.
#[derive(Debug)]
pub struct Listeners {
    /// Those over IPv4.
    pub v4: TcpListener,
    /// Those over IPv6, if the kernel has that.
    pub v6: Option<TcpListener>,
}

impl Listeners {
    /// Opens them at free ports; they do not block.
    pub fn open() -> Result<Self, Error> {
        let v4 = listen(Ipv4Addr::LOCALHOST.into()).map_err(Error::world(WHAT))?;
        let v6 = match listen(Ipv6Addr::LOCALHOST.into()) {
            Ok(listener) => Some(listener),
            Err(why) if is(&why, &[Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL]) => None,
            Err(why) => return Err(Error::world(WHAT)(why)),
        };
        Ok(Self { v4, v6 })
    }

    /// The families that are captured, and where.
    pub(super) fn redirects(&self) -> Result<Vec<Redirect>, Error> {
        let redirect = |listener: &TcpListener| {
            let address = listener.local_addr().map_err(Error::world(WHAT))?;
            Ok(Redirect {
                is_v6: address.is_ipv6(),
                port: address.port(),
            })
        };
        let v6 = self.v6.iter();
        std::iter::once(&self.v4).chain(v6).map(redirect).collect()
    }
}

/// Where an accepted connection was meant to go; nothing if somebody called the listener itself, who is to be sent away.
pub fn wanted(stream: &TcpStream) -> io::Result<Option<Target>> {
    let here = stream.local_addr()?;
    if !here.ip().is_loopback() {
        // TPROXY leaves the packets as they were
        return Ok(Some(here.into()));
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
            Ok(meant.map(Target::from))
        }
        // nobody keeps track of it, so nobody redirected it
        Err(why) if is(&why, &[Errno::NOENT, Errno::NOPROTOOPT]) => Ok(None),
        Err(why) => Err(why),
    }
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
    // first, since who may bind to anything is not told that a family is switched off here
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

const WHAT: &str = "take connections that are meant for others";
/// How many may wait to be taken; the kernel cuts it to what it allows.
const WAITING_MAX: i32 = 4096;
