//! What waits between the streams and the socket.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::frame::{FRAME_MAX, Frame};
use crate::seal::Key;
use crate::wait::Sign;

/// Bytes that wait in one direction before the other side of the queue must.
const QUEUE_BYTES_MAX: usize = 4 << 20;
/// The same where many connections carry one transfer: what waits in a slow one is what others wait for.
const NARROW_BYTES_MAX: usize = 256 << 10;
/// The same of a peer that has not been let in.
const WARY_BYTES_MAX: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) queues: Mutex<Queues>,
    pub(super) room: Condvar,
    pub(super) sign: Sign,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
}

#[derive(Debug, Default)]
pub(super) struct Queues {
    pub(super) outgoing: VecDeque<Vec<u8>>,
    pub(super) outgoing_bytes: usize,
    pub(super) incoming: BTreeMap<u16, Incoming>,
    pub(super) incoming_bytes: usize,
    pub(super) closing: bool,
    /// The peer has not been let in yet.
    pub(super) wary: bool,
    /// It is one of many connections of one transfer.
    pub(super) narrow: bool,
    /// What guards frames once TLS is left; an empty frame in the queue says when.
    pub(super) seals: Option<Seals>,
    /// Why the connection is over, once it is.
    pub(super) ended: Option<String>,
    /// What is kept until nobody uses the connection any more.
    pub(super) guests: Vec<Guest>,
}

/// Something that is dropped with a connection.
pub(super) struct Guest(
    #[expect(dead_code, reason = "it is only dropped")] pub(super) Box<dyn Any + Send + Sync>,
);

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guest")
    }
}

impl Queues {
    /// Bytes from the peer that may wait.
    pub(super) const fn incoming_max(&self) -> usize {
        if self.wary {
            WARY_BYTES_MAX
        } else {
            self.outgoing_max()
        }
    }

    /// Bytes to the peer that may wait.
    pub(super) const fn outgoing_max(&self) -> usize {
        if self.narrow {
            NARROW_BYTES_MAX
        } else {
            QUEUE_BYTES_MAX
        }
    }

    /// The longest frame that the peer may send.
    pub(super) const fn frame_max(&self) -> usize {
        if self.narrow {
            NARROW_BYTES_MAX
        } else {
            FRAME_MAX
        }
    }

    /// Has every stream look again.
    pub(super) fn wake_all(&self) {
        for sign in self.incoming.values().filter_map(|i| i.sign.as_ref()) {
            sign.raise();
        }
    }
}

/// What seals and opens frames on a connection that has left TLS; nothing where they are plain.
#[derive(Debug)]
pub(super) struct Seals {
    pub(super) seal: Option<Key>,
    pub(super) open: Option<Key>,
}

#[derive(Debug, Default)]
pub(super) struct Incoming {
    pub(super) frames: VecDeque<Frame>,
    pub(super) sign: Option<Sign>,
    /// There are some that its sign does not tell of.
    pub(super) untold: bool,
}

#[derive(Debug)]
pub(super) struct Closer(pub(super) Arc<Shared>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.lock().closing = true;
        self.0.sign.raise();
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
