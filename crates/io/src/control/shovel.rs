//! The thread between the socket and the queues, so that whoever drives a machine never waits for TCP.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Instant;
use rustls::Connection;

use super::frame::{Assembly, Frame};
use super::guard::{Guard, gone};
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
/// What may come before anybody is told of it, as long as more is there at once.
const UNTOLD_BYTES: usize = 256 << 10;
/// What TLS takes before TCP gets it.
const WRITE_BYTES: usize = 256 << 10;

/// The thread between the socket and the queues.
pub(super) struct Shovel {
    shared: Arc<Shared>,
    tcp: TcpStream,
    guard: Guard,
    /// Frames that have left their queue.
    leaving: VecDeque<Vec<u8>>,
    /// Octets of frames that the guard has taken and TCP perhaps not.
    unwritten: usize,
    /// What came from TCP.
    came: Vec<u8>,
    /// What came behind the last that TLS carried, before it was known what guards it.
    behind: Option<Vec<u8>>,
    /// What the guard made of it.
    assembly: Assembly,
    arrived: Vec<(u16, Frame)>,
    /// How much has come that the streams have not been told of.
    untold: usize,
    /// Silence ends it.
    impatient: bool,
}

impl Shovel {
    pub(super) fn new(shared: Arc<Shared>, tcp: TcpStream, tls: Connection) -> Self {
        Self {
            shared,
            tcp,
            guard: Guard::new(tls, 2 * WRITE_BYTES),
            leaving: VecDeque::new(),
            unwritten: 0,
            came: Vec::new(),
            behind: None,
            assembly: Assembly::default(),
            arrived: Vec::new(),
            untold: 0,
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
        loop {
            self.shared.sign.lower();
            self.grow_impatient();
            self.take_what_is_behind()?;
            // asked first: a last word may come between the look for words and this
            let closing = self.shared.lock().closing;
            let (idle, paused) = self.write_out()?;
            if closing {
                let until = *linger.get_or_insert_with(|| clock.now() + LINGER);
                if idle || clock.now() >= until {
                    self.guard.close(&mut self.tcp);
                    return Ok(());
                }
            }
            if !paused && self.read_in()? {
                continue;
            }
            self.tell();
            let mut watches = [
                Watch::read(self.tcp.as_raw_fd()),
                Watch::read(self.shared.sign.as_raw_fd()),
            ];
            watches[0].write = self.guard.wants_write();
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
            while self.guard.wants_write() {
                match self.guard.write(&mut self.tcp) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Ok((false, self.paused()));
                    }
                    Err(error) => return Err(error),
                }
            }
            self.count_written();
            while self.unwritten < WRITE_BYTES
                && let Some(frame) = self.leaving.pop_front()
            {
                self.take(frame)?;
            }
            if !self.guard.wants_write() {
                return Ok((true, self.paused()));
            }
        }
    }

    /// Has the guard take a frame, or change where there is an empty one.
    fn take(&mut self, mut frame: Vec<u8>) -> io::Result<()> {
        let len = frame.len();
        if len == 0 {
            let seal = self
                .shared
                .lock()
                .seals
                .as_mut()
                .and_then(|s| s.seal.take());
            return self.guard.leave(seal);
        }
        let mut taken = 0;
        while taken < len {
            match self.guard.take(&mut frame, taken)? {
                0 => self.write_blocking()?,
                more => taken += more,
            }
        }
        self.unwritten += len;
        Ok(())
    }

    /// What the guard has taken has now reached TCP; takes what is to leave next.
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

    /// Makes room in the guard, waiting for TCP.
    fn write_blocking(&mut self) -> io::Result<()> {
        let clock = Clock::start();
        let mut linger = None;
        while self.guard.wants_write() {
            if self.shared.lock().closing {
                let until = *linger.get_or_insert_with(|| clock.now() + LINGER);
                if clock.now() >= until {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            match self.guard.write(&mut self.tcp) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            self.tell();
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
        if self.behind.is_some() {
            return true;
        }
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
        if self.behind.is_some() {
            return Ok(false);
        }
        let wary = self.shared.lock().wary;
        let len = if wary { READ_BYTES_WARY } else { READ_BYTES };
        self.came.resize(len, 0);
        let came = match self.tcp.read(&mut self.came) {
            Ok(0) => return Err(gone()),
            Ok(came) => came,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        self.understand(came)?;
        Ok(true)
    }

    /// Makes frames of the first `came` octets of what came.
    fn understand(&mut self, came: usize) -> io::Result<()> {
        let longest = self.shared.lock().frame_max();
        let knew = self.guard.has_been_left();
        let came = &self.came[..came];
        let arrived = |number, frame| self.arrived.push((number, frame));
        let understood = self
            .guard
            .understand(came, &mut self.assembly, longest, arrived);
        if let Ok(taken) = understood
            && knew != self.guard.has_been_left()
        {
            self.behind = Some(came[taken..].to_vec());
        }
        // what the peer said before it broke a rule
        self.route()?;
        understood.map(drop)
    }

    /// Goes on with what came behind the last that TLS carried, once it is known what guards it.
    fn take_what_is_behind(&mut self) -> io::Result<()> {
        if self.behind.is_none() {
            return Ok(());
        }
        let mut queues = self.shared.lock();
        let Some(seals) = &mut queues.seals else {
            return Ok(());
        };
        self.assembly.unseal(seals.open.take());
        drop(queues);
        self.came = self.behind.take().unwrap_or_default();
        self.understand(self.came.len())
    }

    /// Hands frames to their streams.
    fn route(&mut self) -> io::Result<()> {
        let mut queues = self.shared.lock();
        for (number, frame) in self.arrived.drain(..) {
            if !queues.incoming.contains_key(&number) && queues.incoming.len() >= STREAMS_MAX {
                return Err(io::Error::other("the peer opened too many streams"));
            }
            queues.incoming_bytes += frame.cost();
            self.untold += frame.cost();
            let incoming = queues.incoming.entry(number).or_default();
            incoming.frames.push_back(frame);
            incoming.untold = true;
        }
        drop(queues);
        if self.untold > UNTOLD_BYTES {
            self.tell();
        }
        Ok(())
    }

    /// Wakes those for whom frames have come: not for each, since to wake somebody costs more than to move a frame.
    fn tell(&mut self) {
        if self.untold == 0 {
            return;
        }
        self.untold = 0;
        for incoming in self.shared.lock().incoming.values_mut() {
            if std::mem::take(&mut incoming.untold)
                && let Some(sign) = &incoming.sign
            {
                sign.raise();
            }
        }
    }
}
