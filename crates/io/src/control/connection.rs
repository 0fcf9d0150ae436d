//! Our end of the control connection.

use std::any::Any;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use rustls::Connection;

use super::queues::{Closer, Guest, Queues, Seals, Shared};
use super::shovel::Shovel;
use super::stream::Stream;
use crate::error::Error;
use crate::seal::Key;
use crate::sockopt;
use crate::tcp::pace_where_far;
use crate::wait::Sign;

/// Bytes that the system takes and has not sent yet.
const UNSENT_BYTES_MAX: i32 = 256 << 10;

/// Our end of the control connection; closes when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Control {
    pub(super) shared: Arc<Shared>,
    _closer: Arc<Closer>,
}

impl Control {
    /// Takes over a connection whose handshake is done.
    pub fn start(tcp: TcpStream, tls: Connection) -> Result<Self, Error> {
        Self::begin(tcp, tls, false)
    }

    /// The same with a peer that has not been let in: until [`Control::trust`], little of what it
    /// says is kept.
    pub fn start_wary(tcp: TcpStream, tls: Connection) -> Result<Self, Error> {
        Self::begin(tcp, tls, true)
    }

    /// Listens to all that the peer says from now on.
    pub fn trust(&self) {
        self.shared.lock().wary = false;
        self.shared.sign.raise();
    }

    /// Lets little wait in either direction from now on, since others carry the same transfer.
    pub fn narrow(&self) {
        self.shared.lock().narrow = true;
        self.shared.sign.raise();
    }

    /// Keeps `guest` for as long as the connection holds memory, threads or descriptors, and drops it then.
    pub fn keep(&self, guest: impl Any + Send + Sync) {
        self.shared.lock().guests.push(Guest(Box::new(guest)));
    }

    /// Has frames be sealed from now on as datagrams are, each by itself, or be plain without keys, rather than carried
    /// by TLS: for a connection of which both ends have proved who they are, and that is to carry packets alone. Both
    /// ends must, and neither may have said something that the other has not heard.
    pub fn leave_tls(&self, keys: Option<(Key, Key)>) {
        let (seal, open) = keys.unzip();
        let mut queues = self.shared.lock();
        queues.seals = Some(Seals { seal, open });
        queues.outgoing.push_back(Vec::new());
        drop(queues);
        self.shared.sign.raise();
    }

    fn begin(tcp: TcpStream, tls: Connection, wary: bool) -> Result<Self, Error> {
        let failed = |error| Error::world("setting up the control connection", error);
        tcp.set_nonblocking(true).map_err(failed)?;
        tcp.set_nodelay(true).map_err(failed)?;
        pace_where_far(&tcp);
        // what waits here can still be overtaken, what waits in the system cannot
        let fd = tcp.as_raw_fd();
        sockopt::set(fd, libc::SOL_TCP, libc::TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX).ok();
        let shared = Arc::new(Shared {
            queues: Mutex::new(Queues {
                wary,
                ..Queues::default()
            }),
            room: Condvar::new(),
            sign: Sign::new().map_err(failed)?,
            peer: tcp.peer_addr().map_err(failed)?,
            local: tcp.local_addr().map_err(failed)?,
        });
        let shovel = Shovel::new(Arc::clone(&shared), tcp, tls);
        thread::Builder::new()
            .name("control".into())
            .spawn(move || shovel.run())
            .map_err(failed)?;
        Ok(Self {
            _closer: Arc::new(Closer(Arc::clone(&shared))),
            shared,
        })
    }

    /// The stream of this number; frames that came before it was opened are kept for it.
    pub fn open(&self, number: u16) -> Result<Stream, Error> {
        let sign = Sign::new().map_err(|error| Error::world("opening a stream", error))?;
        let mut queues = self.shared.lock();
        let incoming = queues.incoming.entry(number).or_default();
        incoming.sign = Some(sign.clone());
        sign.raise();
        drop(queues);
        Ok(Stream {
            control: self.clone(),
            number,
            sign,
        })
    }

    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.shared.peer
    }

    /// Our own address.
    pub fn local(&self) -> SocketAddr {
        self.shared.local
    }

    /// Whether the connection is over.
    pub fn has_ended(&self) -> bool {
        self.shared.lock().ended.is_some()
    }

    /// Ends the connection whoever still uses it.
    pub fn close(&self) {
        self.shared.lock().closing = true;
        self.shared.sign.raise();
    }

    /// Waits until everything that was sent has been handed to TCP, or `patience` is over.
    pub fn flush(&self, patience: Duration) {
        let queues = self.shared.lock();
        let busy = |q: &mut Queues| q.outgoing_bytes > 0 && q.ended.is_none();
        drop(self.shared.room.wait_timeout_while(queues, patience, busy));
    }
}
