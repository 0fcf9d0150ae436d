//! Local end of the control connection.
//!
//! ```text
//! Stream::send --> outgoing queue ---> thread "control" --> TLS or seal --> TCP
//! Stream::receive <-- incoming queues <-- the same thread <---------------- TCP
//! ```
//!
//! [`Control`] starts one thread for its connection, and opens numbered [`Stream`]s on it. Clones
//! share the connection; it closes when the last clone and the last stream are dropped. Frames of
//! one stream keep their order. Limits of queues bound the memory that a peer can occupy.

use std::any::Any;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use rustls::Connection;

use super::connection_thread::ConnectionThread;
use super::queues::{Attachment, Closer, QueueLimit, Queues, Seals, Shared};
use super::stream::Stream;
use crate::crypto::seal::Key;
use crate::error::Error;
use crate::host::wait::Waker;
use crate::net::sockopt;
use crate::net::tcp::{pace_where_far, segments};

/// Limit of bytes that the kernel holds unsent (`TCP_NOTSENT_LOWAT`).
const UNSENT_BYTES_MAX: i32 = 256 << 10;

/// Local end of the control connection. The connection closes when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Control {
    shared: Arc<Shared>,
    closer: Arc<Closer>,
}

impl Control {
    /// Starts the connection's thread. The TLS handshake must be complete.
    pub fn start(tcp: TcpStream, tls: Connection) -> Result<Self, Error> {
        Self::begin(tcp, tls, Queues::default())
    }

    /// Starts like [`Control::start`]. At most 64 KiB from the peer wait until [`Control::authorize`].
    pub fn start_unauthorized(tcp: TcpStream, tls: Connection) -> Result<Self, Error> {
        let queues = Queues {
            unauthorized: true,
            limit: QueueLimit::Small,
            ..Queues::default()
        };
        Self::begin(tcp, tls, queues)
    }

    /// Raises the limit of [`Control::start_unauthorized`] to [`QueueLimit::Small`]: enough for a request.
    pub fn authorize(&self) {
        self.shared.lock().unauthorized = false;
        self.shared.waker.raise();
    }

    /// Limits each direction's queue; [`QueueLimit::Least`] ends the connection after 10 s without acknowledgments.
    pub fn limit_queues(&self, limit: QueueLimit) {
        let mut queues = self.shared.lock();
        queues.limit = limit;
        // a stream may have room now
        queues.wake_all();
        drop(queues);
        self.shared.waker.raise();
    }

    /// Ends the connection after `silence_max` without octets of the peer, except while the receive queue is full.
    pub fn limit_silence(&self, silence_max: Duration) {
        self.shared.lock().silence_max = Some(silence_max);
        self.shared.waker.raise();
    }

    /// Keeps `attachment` until the connection has released its memory, thread and descriptors, and then drops it.
    pub fn attach(&self, attachment: impl Any + Send + Sync) {
        self.shared
            .lock()
            .attachments
            .push(Attachment(Box::new(attachment)));
    }

    /// Leaves TLS: from now on seals each frame like a datagram, or sends it plain without `keys`.
    ///
    /// `keys` are the key that seals and the key that opens. Only for a connection that carries nothing but packets and
    /// of which both ends are authenticated. Both ends must call this while no frame is in flight.
    pub fn leave_tls(&self, keys: Option<(Key, Key)>) {
        let (seal, open) = keys.unzip();
        let mut queues = self.shared.lock();
        queues.seals = Some(Seals { seal, open });
        queues.outgoing.push_back(Vec::new());
        drop(queues);
        self.shared.waker.raise();
    }

    fn begin(tcp: TcpStream, tls: Connection, queues: Queues) -> Result<Self, Error> {
        let failed = |error| Error::world("cannot set up the control connection", error);
        tcp.set_nonblocking(true).map_err(failed)?;
        tcp.set_nodelay(true).map_err(failed)?;
        pace_where_far(&tcp);
        let tcp = Arc::new(tcp);
        // Urgent frames can overtake frames in our queue, but not those in the kernel.
        let fd = tcp.as_raw_fd();
        sockopt::set(fd, libc::SOL_TCP, libc::TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX).ok();
        let shared = Arc::new(Shared {
            queues: Mutex::new(queues),
            room: Condvar::new(),
            waker: Waker::new().map_err(failed)?,
            peer: tcp.peer_addr().map_err(failed)?,
            local: tcp.local_addr().map_err(failed)?,
            tcp: Arc::downgrade(&tcp),
        });
        let thread = ConnectionThread::new(Arc::clone(&shared), tcp, tls);
        thread::Builder::new()
            .name("control".into())
            .spawn(move || thread.run())
            .map_err(failed)?;
        Ok(Self {
            closer: Arc::new(Closer(Arc::clone(&shared))),
            shared,
        })
    }

    /// Opens stream `number`. Frames that arrived before are kept for it.
    pub fn open(&self, number: u16) -> Result<Stream, Error> {
        let waker = Waker::new().map_err(|error| {
            Error::world("cannot open a stream of the control connection", error)
        })?;
        let mut queues = self.shared.lock();
        let incoming = queues.incoming.entry(number).or_default();
        incoming.waker = Some(waker.clone());
        waker.raise();
        drop(queues);
        Ok(Stream {
            shared: Arc::clone(&self.shared),
            _closer: Arc::clone(&self.closer),
            number,
            waker,
        })
    }

    /// Returns the peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.shared.peer
    }

    /// Returns the local address.
    pub fn local(&self) -> SocketAddr {
        self.shared.local
    }

    /// Returns the segments that TCP has sent, and the number of them that were retransmitted. Both wrap around.
    pub fn segments(&self) -> Option<(u32, u32)> {
        segments(&*self.shared.tcp.upgrade()?)
    }

    /// Reports whether the connection has ended.
    pub fn has_ended(&self) -> bool {
        self.shared.lock().ended.is_some()
    }

    /// Closes the connection, even if clones are in use.
    pub fn close(&self) {
        self.shared.lock().closing = true;
        self.shared.waker.raise();
    }

    /// Waits until all sent frames have been handed to TCP, for at most `patience`.
    pub fn flush(&self, patience: Duration) {
        let queues = self.shared.lock();
        let busy = |q: &mut Queues| q.outgoing_bytes > 0 && q.ended.is_none();
        drop(self.shared.room.wait_timeout_while(queues, patience, busy));
    }
}
