//! The control connection: framed messages on numbered streams over one TLS connection.
//!
//! A thread of its own shovels between the socket and the queues, so that whoever drives a machine
//! never waits for TCP unless it fills the outgoing queue.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use lighthaul_base::{Instant, Reader};
use rustls::Connection;

use crate::clock::Clock;
use crate::error::Error;
use crate::interrupt;
use crate::wait::{Sign, Watch, wait};

/// The longest frame that is taken from a peer: the tally of the largest object, and a head.
pub const FRAME_MAX: usize = (128 << 20) + 64;
const HEADER: usize = 8;
const QUEUE_BYTES_MAX: usize = 4 << 20;
/// A signal may wake another thread than the one that waits, so it looks this often.
const LISTEN: Duration = Duration::from_millis(100);
const STREAMS_MAX: usize = 256;

/// One message on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// A datagram that crosses here because UDP does not pass.
    pub datagram: bool,
    /// How much of `octets` is the head; the rest is bytes of the object.
    pub head_len: usize,
    /// Head and body.
    pub octets: Vec<u8>,
}

impl Frame {
    /// A message without a body.
    pub fn message(octets: Vec<u8>) -> Self {
        Self {
            datagram: false,
            head_len: octets.len(),
            octets,
        }
    }

    /// Memory that it takes while it waits; an empty one takes some, too.
    fn cost(&self) -> usize {
        size_of::<Self>() + self.octets.len()
    }
}

/// Our end of the control connection; closes when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Control {
    shared: Arc<Shared>,
    _closer: Arc<Closer>,
}

/// One stream of a control connection.
#[derive(Debug)]
pub struct Stream {
    control: Control,
    number: u16,
    sign: Sign,
}

#[derive(Debug)]
struct Shared {
    queues: Mutex<Queues>,
    room: Condvar,
    sign: Sign,
    peer: SocketAddr,
    local: SocketAddr,
}

#[derive(Debug, Default)]
struct Queues {
    outgoing: VecDeque<Vec<u8>>,
    outgoing_bytes: usize,
    incoming: BTreeMap<u16, Incoming>,
    incoming_bytes: usize,
    closing: bool,
    /// Why the connection is over, once it is.
    ended: Option<String>,
}

#[derive(Debug, Default)]
struct Incoming {
    frames: VecDeque<Frame>,
    sign: Option<Sign>,
}

#[derive(Debug)]
struct Closer(Arc<Shared>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.lock().closing = true;
        self.0.sign.raise();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Control {
    /// Takes over a connection whose handshake is done.
    pub fn start(tcp: TcpStream, tls: Connection) -> Result<Self, Error> {
        let failed = |error| Error::world("setting up the control connection", error);
        tcp.set_nonblocking(true).map_err(failed)?;
        tcp.set_nodelay(true).map_err(failed)?;
        let shared = Arc::new(Shared {
            queues: Mutex::default(),
            room: Condvar::new(),
            sign: Sign::new().map_err(failed)?,
            peer: tcp.peer_addr().map_err(failed)?,
            local: tcp.local_addr().map_err(failed)?,
        });
        let shovel = Shovel {
            shared: Arc::clone(&shared),
            tcp,
            tls,
            unwritten: 0,
            parser: Vec::new(),
        };
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

    /// Waits until everything that was sent has been handed to TCP, or `patience` is over.
    pub fn flush(&self, patience: Duration) {
        let queues = self.shared.lock();
        let busy = |q: &mut Queues| q.outgoing_bytes > 0 && q.ended.is_none();
        drop(self.shared.room.wait_timeout_while(queues, patience, busy));
    }
}

impl Stream {
    /// To be called after waiting on the stream's descriptor.
    pub fn woken(&self) {
        self.sign.drain();
    }

    /// Its number.
    pub const fn number(&self) -> u16 {
        self.number
    }

    /// Queues `frame`; waits for room only if it is a datagram and TCP is behind.
    pub fn send(&self, frame: &Frame) -> Result<(), Error> {
        let mut octets = Vec::with_capacity(HEADER + frame.octets.len());
        let whole = frame.head_len == frame.octets.len();
        octets.extend_from_slice(&(frame.octets.len() as u32).to_be_bytes());
        octets.extend_from_slice(&self.number.to_be_bytes());
        octets.push(u8::from(frame.datagram) | (u8::from(whole) << 1));
        octets.push(if whole { 0 } else { frame.head_len as u8 });
        octets.extend_from_slice(&frame.octets);
        let shared = &self.control.shared;
        let mut queues = shared.lock();
        while frame.datagram && queues.outgoing_bytes > QUEUE_BYTES_MAX && queues.ended.is_none() {
            queues = shared
                .room
                .wait(queues)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(why) = &queues.ended {
            return Err(Error::Network(why.clone()));
        }
        queues.outgoing_bytes += octets.len();
        queues.outgoing.push_back(octets);
        drop(queues);
        shared.sign.raise();
        Ok(())
    }

    /// The next frame, if one is there.
    pub fn try_receive(&self) -> Result<Option<Frame>, Error> {
        if !self.sign.lower() {
            return Ok(None);
        }
        let mut queues = self.control.shared.lock();
        let frame = queues
            .incoming
            .get_mut(&self.number)
            .and_then(|i| i.frames.pop_front());
        let Some(frame) = frame else {
            let Some(why) = &queues.ended else {
                return Ok(None);
            };
            self.sign.raise();
            return Err(Error::Network(why.clone()));
        };
        let was_full = queues.incoming_bytes > QUEUE_BYTES_MAX;
        queues.incoming_bytes -= frame.cost();
        let resume = was_full && queues.incoming_bytes <= QUEUE_BYTES_MAX;
        self.sign.raise();
        drop(queues);
        if resume {
            self.control.shared.sign.raise();
        }
        Ok(Some(frame))
    }

    /// The next frame, waiting for it until `deadline` of `clock`.
    pub fn receive(&self, clock: Clock, deadline: Instant) -> Result<Frame, Error> {
        loop {
            if let Some(frame) = self.try_receive()? {
                return Ok(frame);
            }
            if clock.now() >= deadline {
                return Err(Error::TimedOut("the peer did not answer in time".into()));
            }
            let failed = |error| Error::world("waiting for the peer", error);
            interrupt::check()?;
            let until = deadline.min(clock.now() + LISTEN);
            wait(clock, &mut [Watch::read(self.as_raw_fd())], until).map_err(failed)?;
            self.sign.drain();
        }
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.sign.as_raw_fd()
    }
}

/// The thread between the socket and the queues.
struct Shovel {
    shared: Arc<Shared>,
    tcp: TcpStream,
    tls: Connection,
    /// Octets of frames that TLS has taken and TCP perhaps not.
    unwritten: usize,
    parser: Vec<u8>,
}

impl Shovel {
    fn run(mut self) {
        let shovelled = self.shovel();
        if shovelled.is_err() {
            // what the peer said before it went
            while let Ok(true) = self.read_in() {}
        }
        let why = match shovelled {
            Ok(()) => "the connection was closed".to_owned(),
            Err(error) => format!("the connection to {} was lost: {error}", self.shared.peer),
        };
        let mut queues = self.shared.lock();
        queues.ended = Some(why);
        for incoming in queues.incoming.values() {
            if let Some(sign) = &incoming.sign {
                sign.raise();
            }
        }
        drop(queues);
        self.shared.room.notify_all();
    }

    fn shovel(&mut self) -> io::Result<()> {
        let clock = Clock::start();
        let mut linger = None;
        // what came along with the end of the handshake
        self.take_in()?;
        loop {
            self.shared.sign.lower();
            let (idle, paused) = self.write_out()?;
            if self.shared.lock().closing {
                let until = *linger.get_or_insert_with(|| clock.now() + Duration::from_secs(5));
                if idle || clock.now() >= until {
                    self.tls.send_close_notify();
                    self.tls.write_tls(&mut self.tcp).ok();
                    return Ok(());
                }
            }
            if !paused && self.read_in()? {
                continue;
            }
            let mut watches = [
                Watch::read(self.tcp.as_raw_fd()),
                Watch::read(self.shared.sign.as_raw_fd()),
            ];
            watches[0].write = self.tls.wants_write();
            let watches = if paused && !watches[0].write {
                &mut watches[1..]
            } else {
                &mut watches
            };
            let until = linger.map_or(Instant::NEVER, |_| clock.now() + Duration::from_millis(50));
            wait(clock, watches, until)?;
            self.shared.sign.drain();
        }
    }

    /// Moves what is queued to TCP; answers whether all is out, and whether reading must pause.
    fn write_out(&mut self) -> io::Result<(bool, bool)> {
        loop {
            while self.tls.wants_write() {
                match self.tls.write_tls(&mut self.tcp) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Ok((false, self.paused()));
                    }
                    Err(error) => return Err(error),
                }
            }
            self.count_written();
            let next = self.shared.lock().outgoing.pop_front();
            let Some(octets) = next else {
                return Ok((true, self.paused()));
            };
            let mut left = octets.as_slice();
            while !left.is_empty() {
                let taken = self.tls.writer().write(left)?;
                left = &left[taken..];
                if taken == 0 {
                    self.write_blocking()?;
                }
            }
            self.unwritten += octets.len();
        }
    }

    /// What TLS has taken has now reached TCP.
    fn count_written(&mut self) {
        self.shared.lock().outgoing_bytes -= std::mem::take(&mut self.unwritten);
        self.shared.room.notify_all();
    }

    /// Makes room in the TLS buffer, waiting for TCP.
    fn write_blocking(&mut self) -> io::Result<()> {
        let clock = Clock::start();
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.tcp) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let mut watch = Watch::read(self.tcp.as_raw_fd());
            watch.write = true;
            wait(clock, &mut [watch], Instant::NEVER)?;
            if !self.paused() {
                self.read_in()?;
            }
        }
        Ok(())
    }

    fn paused(&self) -> bool {
        self.shared.lock().incoming_bytes > QUEUE_BYTES_MAX
    }

    /// Takes in what TCP has; answers whether there was anything.
    fn read_in(&mut self) -> io::Result<bool> {
        match self.tls.read_tls(&mut self.tcp) {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the peer went away",
                ));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        self.take_in()?;
        Ok(true)
    }

    /// Routes the frames in what TLS has decrypted.
    fn take_in(&mut self) -> io::Result<()> {
        let state = self.tls.process_new_packets().map_err(io::Error::other)?;
        let before = self.parser.len();
        self.parser
            .resize(before + state.plaintext_bytes_to_read(), 0);
        self.tls.reader().read_exact(&mut self.parser[before..])?;
        let mut done = 0;
        while let Some((number, frame, len)) = parse(&self.parser[done..])? {
            done += len;
            self.route(number, frame)?;
        }
        self.parser.drain(..done);
        Ok(())
    }

    fn route(&self, number: u16, frame: Frame) -> io::Result<()> {
        let mut queues = self.shared.lock();
        if !queues.incoming.contains_key(&number) && queues.incoming.len() >= STREAMS_MAX {
            return Err(io::Error::other("the peer opened too many streams"));
        }
        queues.incoming_bytes += frame.cost();
        let incoming = queues.incoming.entry(number).or_default();
        incoming.frames.push_back(frame);
        if let Some(sign) = &incoming.sign {
            sign.raise();
        }
        Ok(())
    }
}

/// The first frame in `octets`, its stream and its length on the wire; nothing if it is not all there.
pub fn parse(octets: &[u8]) -> io::Result<Option<(u16, Frame, usize)>> {
    let bad = |_| io::Error::other("the peer sent a malformed frame");
    if octets.len() < HEADER {
        return Ok(None);
    }
    let mut reader = Reader::new(octets);
    let len = reader.u32().map_err(bad)? as usize;
    let number = reader.u16().map_err(bad)?;
    let flags = reader.u8().map_err(bad)?;
    let head_len = usize::from(reader.u8().map_err(bad)?);
    if len > FRAME_MAX || flags > 3 || head_len > len {
        return Err(io::Error::other("the peer sent a malformed frame"));
    }
    let Ok(body) = reader.take(len) else {
        return Ok(None);
    };
    let head_len = if flags & 2 == 0 { head_len } else { len };
    let frame = Frame {
        datagram: flags & 1 == 1,
        head_len,
        octets: body.to_vec(),
    };
    Ok(Some((number, frame, HEADER + len)))
}
