//! Socket for ARP frames, and the network of its interface.

use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, RawFd};

use lighthaul_capture::kernel::error::{Error, Misuse, Task};
use lighthaul_io::host::wait::Watch;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::sys::socket::{LinkAddr, bind};
use socket2::{Domain, Protocol, Socket, Type};

use crate::address::arp::{FRAME_LEN, Mac, Request};

/// Socket at an Ethernet interface.
#[derive(Debug)]
pub(super) struct ArpSocket {
    socket: Socket,
    pub(super) device: String,
    pub(super) mac: Mac,
}

impl ArpSocket {
    /// Opens a socket at the interface with the address `own`, whose network must contain all of `others`.
    pub(super) fn open(own: Ipv4Addr, others: &[Ipv4Addr]) -> Result<Self, Error> {
        let misuse = |misuse: Misuse| Err(misuse.into());
        let found = addresses()?;
        let Some(home) = found.iter().find(|at| v4(at.address.as_ref()) == Some(own)) else {
            return misuse(Misuse::NotLocal(own));
        };
        let mask = v4(home.netmask.as_ref()).map_or(u32::MAX, u32::from);
        let is_far = |other: &&Ipv4Addr| u32::from(**other) & mask != u32::from(own) & mask;
        // an address label follows the name of the interface
        let device = home.interface_name.split(':').next().unwrap_or_default();
        let links = found.iter().filter(|at| at.interface_name == device);
        let mut links = links.filter_map(|at| at.address.as_ref()?.as_link_addr().copied());
        let link: Option<(LinkAddr, Mac)> = links.find_map(|link| Some((link, link.addr()?)));
        let Some((link, mac)) = link.filter(|(_, mac)| *mac != Mac::default()) else {
            return misuse(Misuse::NoNetwork {
                own,
                device: device.to_owned(),
            });
        };
        if let Some(other) = others.iter().find(is_far) {
            return misuse(Misuse::OtherNetwork {
                other: *other,
                own,
                device: device.to_owned(),
            });
        }
        let open = || -> io::Result<_> {
            let protocol = Protocol::from(i32::from(ETHERTYPE.to_be()));
            let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))?;
            bind(socket.as_raw_fd(), &link)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        Ok(Self {
            socket: open().map_err(Error::world(Task::AnswerArp))?,
            device: device.to_owned(),
            mac,
        })
    }

    /// Returns the watch for received frames.
    pub(super) fn watch(&self) -> Watch {
        let fd: RawFd = self.socket.as_raw_fd();
        Watch::read(fd)
    }

    /// Returns the requests among the next `frames` frames.
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

/// Returns all addresses of this host.
pub(super) fn addresses() -> Result<Vec<InterfaceAddress>, Error> {
    let failed = |errno: nix::Error| Error::world(Task::ListAddresses)(errno.into());
    Ok(getifaddrs().map_err(failed)?.collect())
}

/// Returns the IPv4 address of a socket address.
pub(super) fn v4(address: Option<&nix::sys::socket::SockaddrStorage>) -> Option<Ipv4Addr> {
    Some(address?.as_sockaddr_in()?.ip())
}

/// Ethernet type of ARP.
const ETHERTYPE: u16 = 0x0806;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_without_a_network_are_refused() {
        let why = |own| ArpSocket::open(own, &[]).unwrap_err().to_string();
        let at_lo = why(Ipv4Addr::LOCALHOST);
        assert!(at_lo.contains("is at lo, which has no network"), "{at_lo}");
        let nowhere = why(Ipv4Addr::new(192, 0, 2, 1));
        assert!(nowhere.contains("not an address of this host"), "{nowhere}");
    }
}
