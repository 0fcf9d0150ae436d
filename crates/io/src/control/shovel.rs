//! The thread between the socket and the queues, so that whoever drives a machine never waits for TCP.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Instant;
use rustls::Connection;

use super::frame::{Frame, parse};
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

/// The thread between the socket and the queues.
pub(super) struct Shovel {
    pub(super) shared: Arc<Shared>,
    pub(super) tcp: TcpStream,
    pub(super) tls: Connection,
    /// Octets of frames that TLS has taken and TCP perhaps not.
    pub(super) unwritten: usize,
    pub(super) parser: Vec<u8>,
    /// Silence ends it.
    pub(super) impatient: bool,
}

impl Shovel {
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
        self.take_in()?;
        loop {
            self.shared.sign.lower();
            self.grow_impatient();
            let (idle, paused) = self.write_out()?;
            if self.shared.lock().closing {
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
        let mut queues = self.shared.lock();
        let most = queues.outgoing_max();
        let was_full = queues.outgoing_bytes > most;
        queues.outgoing_bytes -= std::mem::take(&mut self.unwritten);
        if was_full && queues.outgoing_bytes <= most {
            queues.wake_all();
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
        let unfinished = if queues.wary { self.parser.len() } else { 0 };
        queues.incoming_bytes + unfinished > queues.incoming_max()
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
        let most = self.shared.lock().frame_max();
        while let Some((number, frame, len)) = parse(&self.parser[done..])? {
            done += len;
            self.route(number, frame)?;
        }
        self.parser.drain(..done);
        let coming = self.parser.first_chunk().copied().map(u32::from_be_bytes);
        if coming.is_some_and(|len| len as usize > most) {
            return Err(io::Error::other("the peer sent a frame that is too long"));
        }
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
