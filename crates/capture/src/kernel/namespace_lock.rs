//! Lock that allows only one gateway of a network namespace to configure a thing.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use lighthaul_io::host::wait::pause;

use crate::kernel::error::{Error, Exclusive, Task};

/// Lock by an abstract socket name, which the kernel frees with the process.
#[derive(Debug)]
pub struct NamespaceLock {
    _listener: UnixListener,
}

impl NamespaceLock {
    /// Takes the lock `name` for a gateway that performs the exclusive task `does`. A gateway that has just ended may
    /// hold its lock for a moment longer, through a process that it was starting.
    pub fn take(name: &'static str, does: Exclusive) -> Result<Self, Error> {
        let bind =
            || -> io::Result<_> { UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?) };
        let mut claimed = bind();
        for _ in 0..CLAIMS_MAX {
            let is_taken = |why: &io::Error| why.kind() == io::ErrorKind::AddrInUse;
            if !claimed.as_ref().is_err_and(is_taken) {
                break;
            }
            pause(CLAIM_EVERY);
            claimed = bind();
        }
        let listener = claimed.map_err(|why| {
            if why.kind() == io::ErrorKind::AddrInUse {
                Error::Occupied(does)
            } else {
                Error::world(Task::Lock)(why)
            }
        })?;
        Ok(Self {
            _listener: listener,
        })
    }
}

/// Number of attempts to take a lock that is held.
const CLAIMS_MAX: u32 = 10;
/// Interval between two attempts to take a lock.
const CLAIM_EVERY: Duration = Duration::from_millis(30);
