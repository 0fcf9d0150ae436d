//! Queues between the streams of a control connection and its thread.
//!
//! One lock protects the `Queues` of all streams. The users of the connection add to `outgoing` and take from
//! `incoming`; the thread does the reverse. Three limits apply to bytes for a peer that does not read: packets
//! wait at [`QueueLimit`], messages at 1.5 times that; beyond `unread_max`, the connection ends. At its limit of bytes
//! from the peer, the thread stops reading.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::frame::{FRAME_MAX, Frame};
use crate::crypto::seal::Key;
use crate::error::Error;
use crate::host::panics::Panic;
use crate::host::wait::Waker;

/// Limit of bytes that may wait in one direction before the sender must wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueLimit {
    /// 256 KiB, for one of many connections of a transfer. Frames have the same limit.
    Least,
    /// 1 MiB, for a peer that has requested nothing yet, and for a connection that carries nothing urgent.
    Small,
    /// 4 MiB.
    #[default]
    Full,
}

impl QueueLimit {
    const fn bytes(self) -> usize {
        match self {
            Self::Least => 256 << 10,
            Self::Small => 1 << 20,
            Self::Full => 4 << 20,
        }
    }
}

/// Limit of bytes from a peer that is not authorized yet.
const UNAUTHORIZED_BYTES_MAX: usize = 64 << 10;

/// Reason for the end of a connection whose peer leaves more unread than [`Queues::unread_max`].
pub(super) const UNREAD: &str = "the peer does not read what was sent to it";

/// State that the users of a connection share with its thread.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) queues: Mutex<Queues>,
    pub(super) room: Condvar,
    pub(super) waker: Waker,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    /// Socket, while its thread runs.
    pub(super) tcp: Weak<TcpStream>,
}

/// Frames that wait in both directions, their limits, and the state of the connection.
#[derive(Debug, Default)]
pub(super) struct Queues {
    pub(super) outgoing: VecDeque<Vec<u8>>,
    pub(super) outgoing_bytes: usize,
    pub(super) incoming: BTreeMap<u16, Incoming>,
    pub(super) incoming_bytes: usize,
    pub(super) closing: bool,
    /// True until the peer is authorized.
    pub(super) unauthorized: bool,
    pub(super) limit: QueueLimit,
    /// Longest silence of the peer before the connection ends; `None` for no limit.
    pub(super) silence_max: Option<Duration>,
    /// True if the unread bytes exceed [`Queues::unread_max`].
    pub(super) unread: bool,
    /// Keys for frames after TLS. An empty frame in the outgoing queue marks the change.
    pub(super) seals: Option<Seals>,
    /// Reason why the connection has ended.
    pub(super) ended: Option<End>,
    /// Values to drop with the connection.
    pub(super) attachments: Vec<Attachment>,
}

/// Reason why a connection has ended.
#[derive(Debug)]
pub(super) enum End {
    /// Either side closed the connection, or the connection broke.
    Network(String),
    /// The thread of the connection panicked.
    Panic(Panic),
}

impl End {
    /// Returns the error for the users of the connection.
    pub(super) fn error(&self) -> Error {
        match self {
            Self::Network(why) => Error::Network(why.clone()),
            Self::Panic(panic) => panic.clone().into(),
        }
    }
}

/// Value that is dropped with a connection.
pub(super) struct Attachment(
    #[expect(dead_code, reason = "it is only dropped")] pub(super) Box<dyn Any + Send + Sync>,
);

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attachment")
    }
}

impl Queues {
    /// Returns the limit of bytes from the peer that may wait.
    pub(super) const fn incoming_max(&self) -> usize {
        if self.unauthorized {
            UNAUTHORIZED_BYTES_MAX
        } else {
            self.limit.bytes()
        }
    }

    /// Returns the limit of bytes to the peer that may wait.
    pub(super) const fn outgoing_max(&self) -> usize {
        self.limit.bytes()
    }

    /// Returns the limit of bytes to the peer up to which a message may be queued. It is higher than the limit for
    /// packets of objects, so that packets which fill the queue do not block messages.
    pub(super) const fn messages_max(&self) -> usize {
        self.outgoing_max() + self.outgoing_max() / 2
    }

    /// Returns the most bytes to the peer that may wait, for any users of the connection. It
    /// exceeds [`Queues::messages_max`], since several users may queue a frame at the same moment.
    pub(super) const fn unread_max(&self) -> usize {
        2 * self.outgoing_max() + 2 * FRAME_MAX
    }

    /// Returns the longest frame that the peer may send, in octets.
    pub(super) const fn frame_max(&self) -> usize {
        match self.limit {
            QueueLimit::Least => self.limit.bytes(),
            QueueLimit::Small | QueueLimit::Full => FRAME_MAX,
        }
    }

    /// Reports whether reading must pause while `unfinished` octets wait for the end of their frame.
    pub(super) const fn are_full(&self, unfinished: usize) -> bool {
        // the longest frame has to fit where nothing else waits
        let counts = self.unauthorized || self.incoming_bytes > 0;
        counts && self.incoming_bytes + unfinished > self.incoming_max()
    }

    /// Wakes the readers of all streams.
    pub(super) fn wake_all(&self) {
        for waker in self.incoming.values().filter_map(|i| i.waker.as_ref()) {
            waker.raise();
        }
    }
}

/// Keys that seal and open frames on a connection that has left TLS; `None` for plain frames.
#[derive(Debug)]
pub(super) struct Seals {
    pub(super) seal: Option<Key>,
    pub(super) open: Option<Key>,
}

/// Frames that arrived on one stream and were not taken.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    pub(super) frames: VecDeque<Frame>,
    pub(super) waker: Option<Waker>,
    /// True if frames have arrived for which the waker was not raised yet.
    pub(super) unreported: bool,
}

/// Value that closes the connection on drop.
#[derive(Debug)]
pub(super) struct Closer(pub(super) Arc<Shared>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.lock().closing = true;
        self.0.waker.raise();
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
