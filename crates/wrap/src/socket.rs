//! Socket of a program while it connects to the gateway: system calls behind safe functions.
//!
//! A `Socket` borrows the descriptor of the program: it is non-blocking until the value is dropped,
//! and then has its original flags again. One deadline in milliseconds limits the connection and
//! the handshake together. Signals do not interrupt them. A connection that is not complete in time
//! is undone, so that the program can connect again. Failures are values of `errno`. It never
//! closes the descriptor.

use std::ffi::c_void;
use std::net::SocketAddr;

use libc::{c_int, c_short, sockaddr, socklen_t};

use crate::address::Address;
use crate::handshake::Wire;

/// Type of libc's `connect`.
pub(crate) type Connect = unsafe extern "C" fn(c_int, *const sockaddr, socklen_t) -> c_int;

/// Socket that is non-blocking until this value is dropped, with a deadline.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: c_int,
    /// Original flags of the descriptor.
    flags: c_int,
    till_millis: i64,
}

impl Socket {
    /// Borrows `fd` for at most `millis`. Returns `None` if it is not an open descriptor.
    pub(crate) fn new(fd: c_int, millis: i64) -> Option<Self> {
        // SAFETY: F_GETFL takes a number.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        if flags < 0 {
            return None;
        }
        let socket = Self {
            fd,
            flags,
            till_millis: now_millis() + millis,
        };
        socket.put_flags(flags | libc::O_NONBLOCK);
        Some(socket)
    }

    /// Connects the socket by `connect`, and waits until it is connected.
    pub(crate) fn connect(
        &self,
        connect: Connect,
        family: c_int,
        to: SocketAddr,
    ) -> Result<(), c_int> {
        let (address, len) = Address::new(to, family).ok_or(libc::ENETUNREACH)?;
        if family == libc::AF_INET6 && to.is_ipv4() {
            // this fails if the socket is bound to a port; connect then reports the error
            set_option(self.fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0);
        }
        // with TCP_FASTOPEN_CONNECT, connect() would do nothing until the program sends
        set_option(self.fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 0);
        // SAFETY: the address has this many octets.
        if unsafe { connect(self.fd, address.as_ptr(), len) } == 0 {
            return Ok(());
        }
        match errno() {
            libc::EINPROGRESS | libc::EINTR => {}
            why => return Err(why),
        }
        self.wait(libc::POLLOUT)
            .inspect_err(|_| self.disconnect(connect))?;
        match option(self.fd, libc::SOL_SOCKET, libc::SO_ERROR) {
            Some(0) => Ok(()),
            Some(why) => Err(why),
            None => Err(libc::EBADF),
        }
    }

    /// Disconnects the socket, so that the program can connect it again.
    pub(crate) fn disconnect(&self, connect: Connect) {
        // SAFETY: all zeros are a valid address.
        let mut nowhere: sockaddr = unsafe { std::mem::zeroed() };
        nowhere.sa_family = libc::AF_UNSPEC as libc::sa_family_t;
        let len = size_of::<sockaddr>() as socklen_t;
        // SAFETY: the address has this many octets.
        unsafe { connect(self.fd, &raw const nowhere, len) };
    }

    /// Waits until the socket is ready for one of `events`. Signals do not end the wait.
    fn wait(&self, events: c_short) -> Result<(), c_int> {
        loop {
            let left = self.till_millis - now_millis();
            let mut poll = libc::pollfd {
                fd: self.fd,
                events,
                revents: 0,
            };
            // SAFETY: there is one entry.
            let count = unsafe { libc::poll(&raw mut poll, 1, left.max(0) as c_int) };
            match count {
                0 => return Err(libc::ETIMEDOUT),
                1.. => return Ok(()),
                _ if errno() != libc::EINTR => return Err(errno()),
                _ if left <= 0 => return Err(libc::ETIMEDOUT),
                _ => {}
            }
        }
    }

    /// Waits if `why` is `EAGAIN` or `EINTR`, and fails for all other errors.
    fn wait_after(&self, why: c_int, events: c_short) -> Result<(), c_int> {
        match why {
            libc::EAGAIN | libc::EINTR => self.wait(events),
            why => Err(why),
        }
    }

    fn put_flags(&self, flags: c_int) {
        if self.flags & libc::O_NONBLOCK == 0 {
            // SAFETY: F_SETFL takes two numbers.
            unsafe { libc::fcntl(self.fd, libc::F_SETFL, flags) };
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.put_flags(self.flags);
    }
}

impl Wire for Socket {
    fn send(&mut self, octets: &[u8]) -> Result<(), c_int> {
        let mut left = octets;
        while !left.is_empty() {
            let (octets, len) = (left.as_ptr().cast::<c_void>(), left.len());
            // SAFETY: the slice has that many octets.
            let sent = unsafe { libc::send(self.fd, octets, len, libc::MSG_NOSIGNAL) };
            match usize::try_from(sent) {
                Ok(sent) => left = &left[sent..],
                Err(_) => self.wait_after(errno(), libc::POLLOUT)?,
            }
        }
        Ok(())
    }

    fn receive(&mut self, room: &mut [u8]) -> Result<(), c_int> {
        let mut filled = 0;
        while filled < room.len() {
            let left = &mut room[filled..];
            let (octets, len) = (left.as_mut_ptr().cast::<c_void>(), left.len());
            // SAFETY: the slice has that many writable octets.
            let received = unsafe { libc::recv(self.fd, octets, len, 0) };
            match usize::try_from(received) {
                Ok(0) => return Err(libc::ECONNRESET),
                Ok(received) => filled += received,
                Err(_) => self.wait_after(errno(), libc::POLLIN)?,
            }
        }
        Ok(())
    }
}

/// Returns the address family of a TCP socket (or of an MPTCP socket, which falls back to TCP); `None` for other
/// descriptors.
pub(crate) fn tcp_family(fd: c_int) -> Option<c_int> {
    let kind = option(fd, libc::SOL_SOCKET, libc::SO_TYPE)?;
    let protocol = option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL)?;
    let is_tcp = matches!(protocol, libc::IPPROTO_TCP | libc::IPPROTO_MPTCP);
    let family = option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN)?;
    (kind == libc::SOCK_STREAM && is_tcp).then_some(family)
}

/// Returns `errno` of this thread.
pub(crate) fn errno() -> c_int {
    // SAFETY: libc returns the address of `errno` of this thread.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the address is valid as long as the thread lives.
    unsafe { *place }
}

/// Sets `errno` of this thread.
pub(crate) fn set_errno(number: c_int) {
    // SAFETY: libc returns the address of `errno` of this thread.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the address is valid and writable as long as the thread lives.
    unsafe { *place = number };
}

fn option(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    // SAFETY: value is one writable int, and len says so.
    let status =
        unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) };
    (status == 0).then_some(value)
}

fn set_option(fd: c_int, level: c_int, name: c_int, value: c_int) {
    let len = size_of::<c_int>() as socklen_t;
    // SAFETY: value is one readable int.
    unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) };
}

fn now_millis() -> i64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}
