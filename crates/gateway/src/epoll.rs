//! Readiness of sockets, edge-triggered (epoll(7)).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::event::{Timespec, epoll};

/// Set of sockets, each with a token.
#[derive(Debug)]
pub(crate) struct Epoll {
    fd: OwnedFd,
}

/// Event of a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) token: u64,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// True if the connection has failed.
    pub(crate) broken: bool,
}

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        let fd = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { fd })
    }

    /// Adds a socket, until the socket is closed.
    pub(crate) fn add(&self, socket: &impl AsFd, token: u64) -> io::Result<()> {
        use epoll::EventFlags as Flags;
        let flags = Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET;
        let data = epoll::EventData::new_u64(token);
        Ok(epoll::add(&self.fd, socket, data, flags)?)
    }

    /// Removes a socket.
    pub(crate) fn remove(&self, socket: &impl AsFd) {
        // a socket that is not in the set is ignored
        epoll::delete(&self.fd, socket).ok();
    }

    /// Returns the events since the last call.
    pub(crate) fn ready(&self) -> io::Result<Vec<Ready>> {
        use epoll::EventFlags as Flags;
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut events = [MaybeUninit::uninit(); READY_MAX];
        let (ready, _) = epoll::wait(&self.fd, &mut events[..], Some(&now))?;
        let failed = Flags::HUP | Flags::ERR;
        Ok(ready
            .iter()
            .map(|event| {
                let (data, flags) = (event.data, event.flags);
                Ready {
                    token: data.u64(),
                    readable: flags.intersects(Flags::IN | Flags::RDHUP | failed),
                    writable: flags.intersects(Flags::OUT | failed),
                    broken: flags.contains(Flags::ERR),
                }
            })
            .collect())
    }
}

impl AsRawFd for Epoll {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Maximum number of events in one call.
const READY_MAX: usize = 256;
