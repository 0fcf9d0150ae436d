//! Limits that this host's kernel sets for sockets with bulk data.

use std::fs;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use crate::net::sockopt::{get, set};
use crate::net::udp::Udp;

/// Socket buffer sizes and offloads that the kernel grants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Receive buffer that a UDP socket got, in bytes.
    pub receive_bytes: u64,
    /// Send buffer that a UDP socket got, in bytes.
    pub send_bytes: u64,
    /// Limit of TCP's receive buffer (`tcp_rmem`), in bytes.
    pub tcp_receive_bytes: u64,
    /// Limit of TCP's send buffer (`tcp_wmem`), in bytes.
    pub tcp_send_bytes: u64,
    /// True if the kernel cuts trains into datagrams (`UDP_SEGMENT`).
    pub segments: bool,
    /// True if the kernel coalesces datagrams into trains (`UDP_GRO`).
    pub coalesces: bool,
}

impl Grants {
    /// Measures the limits with a UDP socket at `address`. All are zero or false if no socket can be bound.
    pub fn find(address: SocketAddr) -> Self {
        let mut any = address;
        any.set_port(0);
        let Ok(udp) = Udp::bind(any) else {
            return Self::default();
        };
        let fd = udp.as_raw_fd();
        let sent = get(fd, libc::SOL_SOCKET, libc::SO_SNDBUF).unwrap_or(0) / 2;
        Self {
            receive_bytes: udp.buffer_bytes() as u64,
            send_bytes: u64::try_from(sent).unwrap_or(0),
            tcp_receive_bytes: last_number("/proc/sys/net/ipv4/tcp_rmem"),
            tcp_send_bytes: last_number("/proc/sys/net/ipv4/tcp_wmem"),
            segments: set(fd, libc::SOL_UDP, libc::UDP_SEGMENT, 1400).is_ok(),
            coalesces: get(fd, libc::SOL_UDP, libc::UDP_GRO).is_ok_and(|on| on == 1),
        }
    }
}

fn last_number(path: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let last = text.split_whitespace().next_back();
    last.and_then(|number| number.parse().ok()).unwrap_or(0)
}
