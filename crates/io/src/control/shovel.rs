//! The thread between the socket and the queues, so that whoever drives a machine never waits for TCP.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Instant;
use rustls::Connection;

use super::frame::{Assembly, Frame};
use super::queues::Shared;
use crate::clock::Clock;
use crate::sockopt;
use crate::wait::{Watch, wait};

/// Streams that a peer may open.
const STREAMS_MAX: usize = 256;

/// How long the last words may take to leave.
const LINGER: Duration = Duration::from_secs(5);
/// How long what was sent may stay unanswered where other connections can take over.
const SILENCE_MILLIS: i32 = 10_000;
/// How often the end of that is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// What is read from TCP at a time, and what of it of a peer that has not been let in.
const READ_BYTES: usize = 256 << 10;
const READ_BYTES_WARY: usize = 16 << 10;
/// What TLS takes before TCP gets it.
const WRITE_BYTES: usize = 256 << 10;

/// The thread between the socket and the queues.
pub(super) struct Shovel {
    shared: Arc<Shared>,
    tcp: TcpStream,
    tls: Connection,
    /// Frames that have left their queue.
    leaving: VecDeque<Vec<u8>>,
    /// Octets of frames that TLS has taken and TCP perhaps not.
    unwritten: usize,
    /// What came from TCP.
    came: Vec<u8>,
    /// What TLS made of it.
    assembly: Assembly,
    arrived: Vec<(u16, Frame)>,
    /// Silence ends it.
    impatient: bool,
}

impl Shovel {
    pub(super) fn new(shared: Arc<Shared>, tcp: TcpStream, mut tls: Connection) -> Self {
        tls.set_buffer_limit(Some(2 * WRITE_BYTES));
        Self {
            shared,
            tcp,
            tls,
            leaving: VecDeque::new(),
            unwritten: 0,
            came: Vec::new(),
            assembly: Assembly::default(),
            arrived: Vec::new(),
            impatient: false,
        }
    }

    pub(super) fn run(mut self) {
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
        queues.wake_all();
        drop(queues);
        self.shared.room.notify_all();
    }

    fn shovel(&mut self) -> io::Result<()> {
        let clock = Clock::start();
        let mut linger = None;
        // what came along with the end of the handshake
        self.decrypt(0)?;
        self.route()?;
        loop {
            self.shared.sign.lower();
            self.grow_impatient();
            // asked first: a last word may come between the look for words and this
            let closing = self.shared.lock().closing;
            let (idle, paused) = self.write_out()?;
            if closing {
                let until = *linger.get_or_insert_with(|| clock.now() + LINGER);
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
            let until = linger.map_or(Instant::NEVER, |_| clock.now() + LOOK);
            wait(clock, watches, until)?;
            self.shared.sign.drain();
        }
    }

    /// Has the system give up a connection that falls silent, where others can take over.
    fn grow_impatient(&mut self) {
        if !self.impatient && self.shared.lock().narrow {
            self.impatient = true;
            let fd = self.tcp.as_raw_fd();
            sockopt::set(fd, libc::SOL_TCP, libc::TCP_USER_TIMEOUT, SILENCE_MILLIS).ok();
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
            while self.unwritten < WRITE_BYTES
                && let Some(octets) = self.leaving.pop_front()
            {
                self.encrypt(&octets)?;
            }
            if self.unwritten == 0 {
                return Ok((true, self.paused()));
            }
        }
    }

    fn encrypt(&mut self, octets: &[u8]) -> io::Result<()> {
        let mut left = octets;
        while !left.is_empty() {
            let taken = self.tls.writer().write(left)?;
            left = &left[taken..];
            if taken == 0 {
                self.write_blocking()?;
            }
        }
        self.unwritten += octets.len();
        Ok(())
    }

    /// What TLS has taken has now reached TCP; takes what is to leave next.
    fn count_written(&mut self) {
        let mut queues = self.shared.lock();
        // who waits for room is woken once there is some, not for each frame that leaves
        let enough = queues.outgoing_max() / 2;
        let was_full = queues.outgoing_bytes > enough;
        queues.outgoing_bytes -= std::mem::take(&mut self.unwritten);
        if was_full && queues.outgoing_bytes <= enough {
            queues.wake_all();
        }
        if self.leaving.is_empty() {
            std::mem::swap(&mut self.leaving, &mut queues.outgoing);
        }
        drop(queues);
        self.shared.room.notify_all();
    }

    /// Makes room in the TLS buffer, waiting for TCP.
    fn write_blocking(&mut self) -> io::Result<()> {
        let clock = Clock::start();
        let mut linger = None;
        while self.tls.wants_write() {
            if self.shared.lock().closing {
                let until = *linger.get_or_insert_with(|| clock.now() + LINGER);
                if clock.now() >= until {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            match self.tls.write_tls(&mut self.tcp) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let mut watch = Watch::read(self.tcp.as_raw_fd());
            watch.write = true;
            wait(clock, &mut [watch], clock.now() + LOOK)?;
            if !self.paused() {
                self.read_in()?;
            }
        }
        Ok(())
    }

    fn paused(&self) -> bool {
        let queues = self.shared.lock();
        // of a stranger, the part of a frame that is there counts, too
        let unfinished = if queues.wary {
            self.assembly.waiting()
        } else {
            0
        };
        queues.incoming_bytes + unfinished > queues.incoming_max()
    }

    /// Takes in what TCP has; answers whether there was anything.
    fn read_in(&mut self) -> io::Result<bool> {
        let wary = self.shared.lock().wary;
        let len = if wary { READ_BYTES_WARY } else { READ_BYTES };
        self.came.resize(len, 0);
        let came = match self.tcp.read(&mut self.came) {
            Ok(0) => return Err(gone()),
            Ok(came) => came,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        let decrypted = self.decrypt(came);
        // what the peer said before it broke a rule
        self.route()?;
        decrypted.map(|()| true)
    }

    /// Makes frames of the first `came` octets of what came.
    fn decrypt(&mut self, came: usize) -> io::Result<()> {
        let longest = self.shared.lock().frame_max();
        let mut rest = &self.came[..came];
        loop {
            let state = self.tls.process_new_packets().map_err(io::Error::other)?;
            let mut plain = state.plaintext_bytes_to_read();
            let mut reader = self.tls.reader();
            while plain > 0 {
                let (taken, frame) = self.assembly.take(reader.fill_buf()?, longest)?;
                reader.consume(taken);
                plain -= taken;
                self.arrived.extend(frame);
            }
            if state.peer_has_closed() {
                return Err(gone());
            }
            if rest.is_empty() {
                return Ok(());
            }
            self.tls.read_tls(&mut rest)?;
        }
    }

    /// Hands frames to their streams.
    fn route(&mut self) -> io::Result<()> {
        let mut queues = self.shared.lock();
        for (number, frame) in self.arrived.drain(..) {
            if !queues.incoming.contains_key(&number) && queues.incoming.len() >= STREAMS_MAX {
                return Err(io::Error::other("the peer opened too many streams"));
            }
            queues.incoming_bytes += frame.cost();
            let incoming = queues.incoming.entry(number).or_default();
            incoming.frames.push_back(frame);
            if let Some(sign) = &incoming.sign {
                sign.raise();
            }
        }
        Ok(())
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the peer went away")
}
