//! One gateway of a network namespace at a time may tell the kernel about a thing.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use lighthaul_io::host::wait::pause;

use crate::kernel::error::Error;

/// By its name every gateway of a namespace knows that there is one; the kernel forgets it with the process.
#[derive(Debug)]
pub(crate) struct NamespaceLock {
    _listener: UnixListener,
}

impl NamespaceLock {
    /// Makes this the one gateway that `does` so in this namespace. One that has just ended may hold its claim for a moment longer,
    /// by a process that it was about to start.
    pub(crate) fn make(name: &'static str, does: &'static str) -> Result<Self, Error> {
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
                Error::world("claim what other gateways may not do beside")(why)
            }
        })?;
        Ok(Self {
            _listener: listener,
        })
    }
}

/// How often it is tried to claim what is taken, and how long between.
const CLAIMS_MAX: u32 = 10;
const CLAIM_EVERY: Duration = Duration::from_millis(30);
