//! Waiting for thousands of descriptors with one thread (epoll(7)).
//!
//! A [`Poller`] watches each descriptor for reading or for writing, and [`Poller::wait`] returns
//! the tokens of ready descriptors. It is level-triggered: a descriptor is returned again until
//! its owner has read it empty or removed it. [`raise_open_file_limit`] makes room for that many
//! descriptors. For a few descriptors with exact deadlines, see [`wait`](crate::host::wait).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Maximum number of events that one wait returns.
const EVENTS_MAX: usize = 256;

/// Set of watched descriptors. Each has a token that its owner chooses.
#[derive(Debug)]
pub struct Poller(OwnedFd);

/// Descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Token of the descriptor.
    pub token: u64,
    /// True if the peer will send no more data, or the connection is broken.
    pub has_ended: bool,
}

impl Poller {
    /// Returns an empty set.
    pub fn new() -> io::Result<Self> {
        // SAFETY: epoll_create1 takes a number.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and ours.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Watches `fd` until it is readable, closed or removed.
    pub fn add(&self, fd: &impl AsRawFd, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLRDHUP) as u32,
            u64: token,
        };
        self.control(libc::EPOLL_CTL_ADD, fd, &raw mut event)
    }

    /// Watches `fd`, which was watched for reading, until it is writable.
    pub fn await_room(&self, fd: &impl AsRawFd, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: libc::EPOLLOUT as u32,
            u64: token,
        };
        self.control(libc::EPOLL_CTL_MOD, fd, &raw mut event)
    }

    /// Stops watching `fd`.
    pub fn remove(&self, fd: &impl AsRawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut())
    }

    fn control(
        &self,
        what: libc::c_int,
        fd: &impl AsRawFd,
        event: *mut libc::epoll_event,
    ) -> io::Result<()> {
        // SAFETY: both descriptors are open; event is readable, or null for a removal.
        let status = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, fd.as_raw_fd(), event) };
        if status == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Waits for a descriptor, at most `patience` in whole milliseconds. A signal ends the wait without descriptors.
    pub fn wait(&self, patience: Duration) -> io::Result<Vec<Ready>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
        let millis = millis(patience);
        let len = libc::c_int::try_from(EVENTS_MAX).unwrap_or(libc::c_int::MAX);
        // SAFETY: events has room for EVENTS_MAX of them.
        let count = unsafe {
            let fd = self.0.as_raw_fd();
            libc::epoll_wait(fd, events.as_mut_ptr(), len, millis)
        };
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            let is_signal = error.kind() == io::ErrorKind::Interrupted;
            return if is_signal {
                Ok(Vec::new())
            } else {
                Err(error)
            };
        };
        let ended = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
        let ready = events.iter().take(count).map(|event| Ready {
            token: event.u64,
            has_ended: event.events & ended != 0,
        });
        Ok(ready.collect())
    }
}

/// Returns a wait in milliseconds, rounded up, so that a caller with a wait below a millisecond does not spin.
fn millis(patience: Duration) -> libc::c_int {
    let millis = patience.as_nanos().div_ceil(1_000_000);
    libc::c_int::try_from(millis).unwrap_or(libc::c_int::MAX)
}

/// Raises the limit of open files to the hard limit, and returns it.
pub fn raise_open_file_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let most = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    most.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn poll_timeouts_are_rounded_up() {
        for (nanos, rounded) in [(0, 0), (1, 1), (999_999, 1), (1_000_000, 1), (1_000_001, 2)] {
            assert_eq!(millis(Duration::from_nanos(nanos)), rounded, "{nanos}");
        }
        assert_eq!(millis(Duration::MAX), libc::c_int::MAX);
    }

    #[test]
    fn wait_returns_tokens_of_ready_descriptors() {
        let poller = Poller::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut calls: Vec<_> = (0..3)
            .map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap())
            .collect();
        let taken: Vec<_> = (0..3).map(|_| listener.accept().unwrap().0).collect();
        for (token, tcp) in (7..).zip(&taken) {
            poller.add(tcp, token).unwrap();
        }
        assert_eq!(poller.wait(Duration::ZERO).unwrap(), []);
        calls[1].write_all(b"x").unwrap();
        let ready = poller.wait(Duration::from_secs(9)).unwrap();
        assert_eq!(
            ready,
            [Ready {
                token: 8,
                has_ended: false
            }]
        );
        poller.await_room(&taken[2], 5).unwrap();
        let ready = poller.wait(Duration::from_secs(9)).unwrap();
        assert!(ready.iter().any(|ready| ready.token == 5), "{ready:?}");
        poller.remove(&taken[2]).unwrap();
        poller.remove(&taken[1]).unwrap();
        drop(calls.remove(0));
        let ready = poller.wait(Duration::from_secs(9)).unwrap();
        assert_eq!(
            ready,
            [Ready {
                token: 7,
                has_ended: true
            }]
        );
    }
}
