//! Where frames about addresses come and go, and the network that they are about.

use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, RawFd};

use lighthaul_io::host::wait::Watch;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::sys::socket::{LinkAddr, bind};
use socket2::{Domain, Protocol, Socket, Type};

use crate::address::arp::{FRAME_LEN, Mac, Request};
use crate::kernel::error::Error;

/// An interface in a network of Ethernet.
#[derive(Debug)]
pub(super) struct ArpSocket {
    socket: Socket,
    pub(super) device: String,
    pub(super) mac: Mac,
}

impl ArpSocket {
    /// At the interface that has the address `own`, in a network that has all of `others` too.
    pub(super) fn open(own: Ipv4Addr, others: &[Ipv4Addr]) -> Result<Self, Error> {
        let misuse = |why: String| Err(Error::Misuse(why));
        let found = addresses()?;
        let Some(home) = found.iter().find(|at| v4(at.address.as_ref()) == Some(own)) else {
            return misuse(format!(
                "{own} is no address of this host: `ip addr` lists them"
            ));
        };
        let mask = v4(home.netmask.as_ref()).map_or(u32::MAX, u32::from);
        let is_far = |other: &&Ipv4Addr| u32::from(**other) & mask != u32::from(own) & mask;
        // one that has a label is called by it
        let device = home.interface_name.split(':').next().unwrap_or_default();
        let links = found.iter().filter(|at| at.interface_name == device);
        let mut links = links.filter_map(|at| at.address.as_ref()?.as_link_addr().copied());
        let link: Option<(LinkAddr, Mac)> = links.find_map(|link| Some((link, link.addr()?)));
        let Some((link, mac)) = link.filter(|(_, mac)| *mac != Mac::default()) else {
            return misuse(format!(
                "{own} is at {device}, which is no network that others are in: give the elements' own addresses there"
            ));
        };
        if let Some(other) = others.iter().find(is_far) {
            return misuse(format!(
                "{other} is not in the network of {own} at {device}"
            ));
        }
        let open = || -> io::Result<_> {
            let protocol = Protocol::from(i32::from(ETHERTYPE.to_be()));
            let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))?;
            bind(socket.as_raw_fd(), &link)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        Ok(Self {
            socket: open().map_err(Error::world("answer for the address of a cluster"))?,
            device: device.to_owned(),
            mac,
        })
    }

    /// What to wait for.
    pub(super) fn watch(&self) -> Watch {
        let fd: RawFd = self.socket.as_raw_fd();
        Watch::read(fd)
    }

    /// What the next frames ask for, of which as many as this are read.
    pub(super) fn requests(&mut self, frames: usize) -> io::Result<Vec<Request>> {
        let mut requests = Vec::new();
        for _ in 0..frames {
            let mut frame = [0; FRAME_LEN];
            match self.socket.read(&mut frame) {
                Ok(len) => requests.extend(Request::decode(&frame[..len])),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(requests)
    }

    /// Sends a frame.
    pub(super) fn say(&mut self, frame: &[u8; FRAME_LEN]) -> io::Result<()> {
        self.socket.write_all(frame)
    }
}

/// All addresses of this host.
pub(super) fn addresses() -> Result<Vec<InterfaceAddress>, Error> {
    let failed =
        |errno: nix::Error| Error::world("look for the addresses of this host")(errno.into());
    Ok(getifaddrs().map_err(failed)?.collect())
}

/// As an address of IPv4, if it is one.
pub(super) fn v4(address: Option<&nix::sys::socket::SockaddrStorage>) -> Option<Ipv4Addr> {
    Some(address?.as_sockaddr_in()?.ip())
}

/// ARP, as frames call it.
const ETHERTYPE: u16 = 0x0806;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_that_are_in_no_network_are_refused() {
        let why = |own| ArpSocket::open(own, &[]).unwrap_err().to_string();
        let at_home = why(Ipv4Addr::LOCALHOST);
        assert!(
            at_home.contains("is at lo, which is no network"),
            "{at_home}"
        );
        let nowhere = why(Ipv4Addr::new(192, 0, 2, 1));
        assert!(nowhere.contains("no address of this host"), "{nowhere}");
    }
}
