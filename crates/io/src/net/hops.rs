//! Traceroute without privileges: datagrams with increasing TTLs, and the ICMP errors about them
//! (RFC 792, RFC 4443). The kernel delivers these errors to the socket that sent the datagram.

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::host::clock::Clock;
use crate::host::wait::wait;
use crate::net::sockaddr;
use crate::net::sockopt::set;

/// Hop of a path that answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Distance in hops, from 1.
    pub distance: u8,
    /// Address of the router or target.
    pub address: IpAddr,
}

/// Returns the hops on the way to `target` that answer within `patience`, the nearest first.
pub fn hops(target: SocketAddr, patience: Duration) -> io::Result<Vec<Hop>> {
    let probes: Vec<UdpSocket> = (1..=HOPS_MAX)
        .map(|distance| probe(target, distance))
        .collect::<io::Result<_>>()?;
    let clock = Clock::start();
    let end = clock.now() + patience;
    let mut found = vec![None; probes.len()];
    while clock.now() < end && found.iter().any(Option::is_none) {
        wait(clock, &mut [], end.min(clock.now() + LOOK))?;
        for (probe, found) in probes.iter().zip(&mut found) {
            if found.is_none() {
                *found = offender(probe);
            }
        }
    }
    let hops = (1..).zip(found);
    let answered = hops.filter_map(|(distance, address)| {
        Some(Hop {
            distance,
            address: address?,
        })
    });
    let mut answered: Vec<Hop> = answered.collect();
    // The target answers every probe that reaches it; the first one gives its distance.
    answered.dedup_by_key(|hop| hop.address);
    Ok(answered)
}

/// Creates a socket and sends a datagram whose TTL expires after `distance` hops.
fn probe(target: SocketAddr, distance: u8) -> io::Result<UdpSocket> {
    let any = match target {
        SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0_u16; 8], 0)),
    };
    let socket = UdpSocket::bind(any)?;
    socket.set_nonblocking(true)?;
    let fd = socket.as_raw_fd();
    let far = i32::from(distance);
    if target.is_ipv6() {
        set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
        set(fd, libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, far)?;
    } else {
        set(fd, libc::IPPROTO_IP, libc::IP_RECVERR, 1)?;
        set(fd, libc::IPPROTO_IP, libc::IP_TTL, far)?;
    }
    socket.connect(target)?;
    // A datagram that the kernel refuses counts as lost.
    socket.send(&[0; 8]).ok();
    Ok(socket)
}

/// Returns the address of the router that dropped the datagram of `probe`, if its ICMP error has arrived.
fn offender(probe: &UdpSocket) -> Option<IpAddr> {
    let mut control = [0_u64; 64];
    // SAFETY: an all-zero msghdr is valid.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: control is writable for msg_controllen octets; message has no other buffers.
    let status = unsafe { libc::recvmsg(probe.as_raw_fd(), &raw mut message, flags) };
    if status < 0 {
        return None;
    }
    // SAFETY: the kernel filled message and its control buffer.
    let first = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    if first.is_null() {
        return None;
    }
    // SAFETY: CMSG_FIRSTHDR returns only complete headers.
    let header = unsafe { first.read_unaligned() };
    let is_error = [
        (libc::IPPROTO_IP, libc::IP_RECVERR),
        (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
    ]
    .contains(&(header.cmsg_level, header.cmsg_type));
    let start = size_of::<libc::cmsghdr>() + size_of::<libc::sock_extended_err>();
    let len = header.cmsg_len.checked_sub(start)?;
    if !is_error || len < size_of::<libc::sockaddr_in>() {
        return None;
    }
    // SAFETY: an all-zero sockaddr_storage is valid.
    let mut name: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let len = len.min(size_of_val(&name));
    // SAFETY: the data of a complete header follow it.
    let data = unsafe { libc::CMSG_DATA(first) };
    let skip = size_of::<libc::sock_extended_err>();
    // SAFETY: the address lies behind the error, within cmsg_len octets.
    let from = unsafe { data.add(skip) };
    // SAFETY: both are valid for len octets, and do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(from, (&raw mut name).cast::<u8>(), len) };
    sockaddr::read(&name).map(|address| address.ip())
}

/// Largest number of hops that are probed. Longer paths are rare.
const HOPS_MAX: u8 = 30;
/// Interval between checks for answers.
const LOOK: Duration = Duration::from_millis(10);
