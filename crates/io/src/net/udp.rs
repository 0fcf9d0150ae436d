//! UDP sockets that send and receive trains: segmented by the kernel on send (GSO), coalesced on receive (GRO).
//!
//! [`Udp`] hides if the kernel and the network card support both: without them it sends and
//! receives single datagrams. A datagram that the host or the path refuses counts as lost and is no
//! error, since every protocol above repairs losses. Datagrams are never fragmented.

use std::io;
use std::mem;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::net::sockaddr;
use crate::net::sockopt::{get, set};

/// Limit of the kernel for one segmented send, in octets.
pub const TRAIN_BYTES_MAX: usize = 65_000;
/// Limit of the kernel for one segmented send, in datagrams (`UDP_MAX_SEGMENTS`).
pub const TRAIN_DATAGRAMS_MAX: usize = 64;
/// Returns the length of the IP and UDP headers of a datagram to or from `peer`, in octets.
pub const fn header_len(peer: SocketAddr) -> u32 {
    match peer {
        SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_none() => 48,
        SocketAddr::V4(_) | SocketAddr::V6(_) => 28,
    }
}

/// Size requested for each socket buffer, in bytes. Holds the datagrams of a receiver's pause at several Gb/s.
const BUFFER_BYTES: usize = 64 << 20;

/// UDP socket that sends and receives trains.
#[derive(Debug)]
pub struct Udp {
    socket: UdpSocket,
    segments: AtomicBool,
    buffer_bytes: AtomicUsize,
}

/// Received train: datagrams of equal length in a buffer. The last may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Octets received.
    pub len: usize,
    /// Length of each datagram except the last, in octets.
    pub segment_len: usize,
    /// Address of the sender.
    pub from: Option<SocketAddr>,
}

impl Udp {
    /// Creates a socket bound to `address`. Other sockets of this user may share the port (`SO_REUSEPORT`).
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = sockaddr::bind_shared(address)?;
        let fd = socket.as_raw_fd();
        set(fd, libc::SOL_UDP, libc::UDP_GRO, 1).ok();
        set(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)?;
        forbid_fragments(fd, address.is_ipv6())?;
        let udp = Self {
            socket,
            segments: AtomicBool::new(true),
            buffer_bytes: AtomicUsize::new(0),
        };
        udp.set_buffers(BUFFER_BYTES);
        Ok(udp)
    }

    /// Connects the socket to `peer`, so that it sends to and receives from no other host.
    pub fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        self.socket.connect(peer)
    }

    /// Returns the socket's local address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Requests socket buffers of `bytes`, beyond the system's limit if this process has the privilege.
    pub fn set_buffers(&self, bytes: usize) {
        let fd = self.socket.as_raw_fd();
        let value = i32::try_from(bytes).unwrap_or(i32::MAX);
        for (force, plain) in [
            (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
            (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
        ] {
            if set(fd, libc::SOL_SOCKET, force, value).is_err() {
                set(fd, libc::SOL_SOCKET, plain, value).ok();
            }
        }
        let granted = get(fd, libc::SOL_SOCKET, libc::SO_RCVBUF).unwrap_or(0) / 2;
        self.buffer_bytes
            .store(usize::try_from(granted).unwrap_or(0), Ordering::Relaxed);
    }

    /// Returns the size of the receive buffer that the kernel granted, in bytes.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_bytes.load(Ordering::Relaxed)
    }

    /// Reports whether the kernel cuts trains into datagrams, as far as known.
    pub fn segments(&self) -> bool {
        self.segments.load(Ordering::Relaxed)
    }

    /// Stops asking the kernel to cut trains, for tests and for kernels that refuse.
    pub fn stop_segmenting(&self) {
        self.segments.store(false, Ordering::Relaxed);
    }

    /// Turns coalescing off: each reception is one datagram.
    pub fn stop_coalescing(&self) {
        set(self.socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_GRO, 0).ok();
    }

    /// Sends `parts` as datagrams of `segment_len` octets, each from `parts_each` parts.
    ///
    /// A datagram that the host or the path refuses counts as lost and is no error.
    pub(crate) fn send_train(
        &self,
        parts: &[libc::iovec],
        parts_each: usize,
        segment_len: usize,
    ) -> io::Result<()> {
        let single = parts.len() <= parts_each;
        if self.send_cut(parts, segment_len, single)? {
            return Ok(());
        }
        for datagram in parts.chunks(parts_each) {
            self.send_parts(datagram, None)?;
        }
        Ok(())
    }

    /// Sends consecutive datagrams of `segment_len` octets. The last may be shorter.
    pub(crate) fn send_row(&self, octets: &[u8], segment_len: usize) -> io::Result<()> {
        let single = octets.len() <= segment_len;
        if self.send_cut(&[part(octets)], segment_len, single)? {
            return Ok(());
        }
        for datagram in octets.chunks(segment_len) {
            self.send_parts(&[part(datagram)], None)?;
        }
        Ok(())
    }

    /// Sends `parts` in one call if the kernel can cut them, or for a `single` datagram. Returns false if not sent.
    fn send_cut(
        &self,
        parts: &[libc::iovec],
        segment_len: usize,
        single: bool,
    ) -> io::Result<bool> {
        if !single && !self.segments() {
            return Ok(false);
        }
        let cut = (!single).then_some(segment_len as u16);
        match self.send_parts(parts, cut) {
            Err(error) if !single && refuses_segments(&error) => {
                self.stop_segmenting();
                Ok(false)
            }
            sent => sent.map(|()| true),
        }
    }

    /// Sends one datagram. `to` may be `None` on a connected socket.
    pub fn send(&self, octets: &[u8], to: Option<SocketAddr>) -> io::Result<()> {
        let sent = match to {
            Some(to) => self.socket.send_to(octets, to),
            None => self.socket.send(octets),
        };
        match sent {
            Err(error) if !is_loss(&error) => Err(error),
            _ => Ok(()),
        }
    }

    fn send_parts(&self, parts: &[libc::iovec], cut: Option<u16>) -> io::Result<()> {
        let mut control = Control::default();
        // SAFETY: an all-zero msghdr is valid.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = parts.as_ptr().cast_mut();
        message.msg_iovlen = parts.len();
        if let Some(segment_len) = cut {
            message.msg_control = (&raw mut control.0).cast();
            message.msg_controllen = control.put_segment(segment_len);
        }
        let mut told = false;
        loop {
            // SAFETY: the parts point at memory that the caller keeps alive over this call.
            let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const message, 0) };
            if sent >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            // The kernel may report the ICMP error of an earlier datagram in place of sending this one: try once more.
            if is_about_another(&error) && !told {
                told = true;
                continue;
            }
            return if is_loss(&error) { Ok(()) } else { Err(error) };
        }
    }

    /// Receives a train into `parts` without waiting. Returns `None` if none is waiting.
    ///
    /// Sets `drops` to the number of receptions that a full receive buffer has dropped so far.
    pub fn receive(
        &self,
        parts: &mut [libc::iovec],
        drops: &mut u32,
    ) -> io::Result<Option<Received>> {
        self.receive_with(libc::MSG_DONTWAIT, parts, drops)
    }

    fn receive_with(
        &self,
        flags: libc::c_int,
        parts: &mut [libc::iovec],
        drops: &mut u32,
    ) -> io::Result<Option<Received>> {
        let mut control = Control::default();
        // SAFETY: an all-zero sockaddr_storage and msghdr are valid.
        let mut name: libc::sockaddr_storage = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_name = (&raw mut name).cast();
        message.msg_namelen = size_of_val(&name) as libc::socklen_t;
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = parts.len();
        message.msg_control = (&raw mut control.0).cast();
        message.msg_controllen = size_of_val(&control.0);
        let fd = self.socket.as_raw_fd();
        // SAFETY: every pointer in message is valid for the lengths beside it.
        let len = unsafe { libc::recvmsg(fd, &raw mut message, flags) };
        let Ok(len) = usize::try_from(len) else {
            let error = io::Error::last_os_error();
            return if would_block(&error) {
                Ok(None)
            } else {
                Err(error)
            };
        };
        let mut segment_len = len;
        read_control(&message, |level, kind, value| match (level, kind) {
            (libc::SOL_UDP, libc::UDP_GRO) => segment_len = value as usize,
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => *drops = value,
            _ => {}
        });
        let from = sockaddr::read(&name);
        Ok(Some(Received {
            len,
            segment_len: segment_len.max(1),
            from,
        }))
    }

    /// Returns the first octets of the next reception without removing it. Returns `None` if none is waiting.
    pub fn peek<const N: usize>(&self) -> io::Result<Option<[u8; N]>> {
        let mut start = [0; N];
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        // SAFETY: start has N writable octets.
        let len = unsafe {
            let fd = self.socket.as_raw_fd();
            libc::recv(fd, start.as_mut_ptr().cast(), N, flags)
        };
        if len >= 0 {
            return Ok(Some(start));
        }
        let error = io::Error::last_os_error();
        if would_block(&error) {
            Ok(None)
        } else {
            Err(error)
        }
    }

    /// Receives a train into `buffer` without waiting. Returns `None` if none is waiting.
    pub fn receive_into(&self, buffer: &mut [u8], drops: &mut u32) -> io::Result<Option<Received>> {
        self.receive(&mut [whole(buffer)], drops)
    }

    /// Does the same as [`Self::receive_into`], but leaves the train in the receive buffer.
    pub fn peek_into(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK;
        self.receive_with(flags, &mut [whole(buffer)], &mut 0)
    }
}

impl AsRawFd for Udp {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Buffer for control messages, aligned as the kernel requires.
#[derive(Default)]
#[repr(C, align(8))]
struct Control([u64; 16]);

impl Control {
    /// Writes the control message that requests segments of `segment_len` octets. Returns its length.
    fn put_segment(&mut self, segment_len: u16) -> usize {
        let header = size_of::<libc::cmsghdr>();
        let cmsg = libc::cmsghdr {
            cmsg_len: header + size_of::<u16>(),
            cmsg_level: libc::SOL_UDP,
            cmsg_type: libc::UDP_SEGMENT,
        };
        let base = &raw mut self.0;
        // SAFETY: the array is large and aligned enough for one header.
        unsafe { base.cast::<libc::cmsghdr>().write(cmsg) };
        // A cmsghdr is a whole number of words; its data begins with the next word.
        self.0[header / size_of::<u64>()] = u64::from_ne_bytes(first_two(segment_len));
        header + 8
    }
}

/// Returns eight octets that start with the two octets of `value`.
const fn first_two(value: u16) -> [u8; 8] {
    let [a, b] = value.to_ne_bytes();
    [a, b, 0, 0, 0, 0, 0, 0]
}

/// Describes a buffer for the kernel to fill.
const fn whole(buffer: &mut [u8]) -> libc::iovec {
    libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    }
}

/// Describes a buffer for the kernel to read.
const fn part(octets: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: octets.as_ptr().cast_mut().cast(),
        iov_len: octets.len(),
    }
}

fn read_control(message: &libc::msghdr, mut take: impl FnMut(i32, i32, u32)) {
    // SAFETY: the kernel filled message and its control buffer.
    let mut cmsg = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !cmsg.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return only complete headers.
        let header = unsafe { cmsg.read_unaligned() };
        // SAFETY: as above.
        let data = unsafe { libc::CMSG_DATA(cmsg) };
        let payload = header.cmsg_len - size_of::<libc::cmsghdr>();
        if payload >= 4 {
            // SAFETY: the message has at least four octets of data.
            let value = unsafe { data.cast::<u32>().read_unaligned() };
            take(header.cmsg_level, header.cmsg_type, value);
        }
        // SAFETY: message is unchanged since the kernel filled it.
        cmsg = unsafe { libc::CMSG_NXTHDR(message, cmsg) };
    }
}

/// Reports whether `error` means that no datagram can be received now.
fn would_block(error: &io::Error) -> bool {
    is_loss(error)
        || matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
        )
}

/// Reports whether `error` means that only a single datagram is lost.
fn is_loss(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::ENETDOWN
                | libc::EMSGSIZE
                | libc::ENOBUFS
                | libc::EPERM
        )
    )
}

/// Reports whether `error` may be an ICMP error about an earlier datagram.
fn is_about_another(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMSGSIZE | libc::ECONNREFUSED | libc::EHOSTUNREACH)
    )
}

fn refuses_segments(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP)
    )
}

fn forbid_fragments(fd: RawFd, v6: bool) -> io::Result<()> {
    if v6 {
        set(
            fd,
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_PROBE,
        )?;
    }
    set(
        fd,
        libc::IPPROTO_IP,
        libc::IP_MTU_DISCOVER,
        libc::IP_PMTUDISC_PROBE,
    )
}
