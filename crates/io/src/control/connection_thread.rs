//! Thread between the socket and the queues, so that the driver of a machine never waits for TCP.
//!
//! It encrypts queued frames and writes them, and it reads, decrypts and routes arriving ones to
//! their streams. Reading pauses while a stream has too much unread, so that a peer cannot fill the
//! memory. The connection ends if the peer is silent for too long, or breaks the framing.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Instant;
use rustls::Connection;

use super::frame::{Assembly, Frame};
use super::protection::{FrameProtection, gone};
use super::queues::{End, QueueLimit, Shared, UNREAD};
use crate::host::clock::Clock;
use crate::host::panics;
use crate::host::wait::{Watch, wait};
use crate::net::sockopt;

/// Streams that a peer may open.
const STREAMS_MAX: usize = 256;

/// Time that a closing connection has to send its last frames.
const LINGER: Duration = Duration::from_secs(5);
/// Longest wait for the peer to close after this side.
const FAREWELL: Duration = Duration::from_secs(2);
/// Maximum number of octets that are discarded during this wait.
const DISCARDED_MAX: usize = 64 << 20;
/// Time without acknowledgments after which one of many connections counts as broken (`TCP_USER_TIMEOUT`).
const SILENCE_MILLIS: i32 = 10_000;
/// Longest wait between checks of the end of `LINGER`.
const LOOK: Duration = Duration::from_millis(50);

/// Size of a read from TCP for an authorized peer.
const READ_BYTES: usize = 256 << 10;
/// Size of a read from TCP for any other peer.
const READ_BYTES_UNAUTHORIZED: usize = 16 << 10;
/// Bytes that may arrive before the streams are woken, while more can be read at once.
const UNREPORTED_BYTES: usize = 256 << 10;
/// Bytes that TLS takes before they are written to TCP.
const WRITE_BYTES: usize = 256 << 10;

/// Thread between the socket and the queues.
// fields: state of one loop, which each turn reads and changes
pub(super) struct ConnectionThread {
    shared: Arc<Shared>,
    tcp: Arc<TcpStream>,
    protection: FrameProtection,
    /// Frames taken from the outgoing queue.
    leaving: VecDeque<Vec<u8>>,
    /// Octets of frames that the protection has taken and that TCP may not have.
    unwritten: usize,
    /// Buffer for octets from TCP.
    came: Vec<u8>,
    /// Octets behind the peer's marker frame, until their key is known.
    behind: Option<Vec<u8>>,
    /// Decoder of incoming frames.
    assembly: Assembly,
    arrived: Vec<(u16, Frame)>,
    /// Bytes of frames that have arrived since the streams were woken.
    unreported: usize,
    /// True once `TCP_USER_TIMEOUT` is set.
    impatient: bool,
    clock: Clock,
    /// Last time at which octets arrived, or at which reading was paused.
    heard: Instant,
}

impl ConnectionThread {
    pub(super) fn new(shared: Arc<Shared>, tcp: Arc<TcpStream>, tls: Connection) -> Self {
        Self {
            shared,
            tcp,
            protection: FrameProtection::new(tls, 2 * WRITE_BYTES),
            leaving: VecDeque::new(),
            unwritten: 0,
            came: Vec::new(),
            behind: None,
            assembly: Assembly::default(),
            arrived: Vec::new(),
            unreported: 0,
            impatient: false,
            clock: Clock::start(),
            heard: Instant::ZERO,
        }
    }

    pub(super) fn run(mut self) {
        let end = panics::catch("connection", || self.carry());
        let has_sent_all = matches!(end, Ok(Ok(true)));
        let why = match end {
            Ok(Ok(_)) => End::Network("the connection was closed".to_owned()),
            Ok(Err(error)) => {
                let peer = self.shared.peer;
                End::Network(format!("the connection to {peer} was lost: {error}"))
            }
            Err(panic) => End::Panic(panic),
        };
        let mut queues = self.shared.lock();
        queues.ended = Some(why);
        queues.wake_all();
        // strangers get no thread longer than their request takes
        let waits = has_sent_all && !queues.unauthorized;
        if waits && Arc::strong_count(&self.shared) == 1 {
            queues.incoming.clear();
        }
        drop(queues);
        self.shared.room.notify_all();
        if waits {
            // what is attached to the connection counts its socket and thread, until both are gone
            let (_attachments, tcp, clock) = self.into_socket();
            await_end_of_peer(&tcp, clock).ok();
        }
    }

    /// Drops all memory of the thread.
    fn into_socket(self) -> (Arc<Shared>, Arc<TcpStream>, Clock) {
        (self.shared, self.tcp, self.clock)
    }

    /// Carries frames until the connection ends. Returns whether it was closed with nothing unsent.
    fn carry(&mut self) -> io::Result<bool> {
        let exchanged = self.exchange();
        if exchanged.is_err() {
            // Deliver what the peer sent before the connection failed.
            while let Ok(true) = self.read_in() {}
        }
        exchanged
    }

    fn exchange(&mut self) -> io::Result<bool> {
        let clock = self.clock;
        let mut linger = None;
        loop {
            self.shared.waker.lower();
            self.check_unread()?;
            self.grow_impatient();
            self.take_what_is_behind()?;
            // Read first: a last frame may be queued between the two locks.
            let closing = self.shared.lock().closing;
            let (idle, paused) = self.write_out()?;
            if closing {
                let until = *linger.get_or_insert_with(|| clock.now() + LINGER);
                if idle || clock.now() >= until {
                    self.protection.close(&self.tcp);
                    return Ok(idle);
                }
            }
            if !paused && self.read_in()? {
                continue;
            }
            self.tell();
            let mut watches = [
                Watch::read(self.tcp.as_raw_fd()),
                Watch::read(self.shared.waker.as_raw_fd()),
            ];
            watches[0].write = self.protection.wants_write();
            let watches = if paused && !watches[0].write {
                &mut watches[1..]
            } else {
                &mut watches
            };
            if paused {
                self.heard = clock.now();
            }
            let until = linger.map_or(Instant::NEVER, |_| clock.now() + LOOK);
            wait(clock, watches, until.min(self.check_silence()?))?;
            self.shared.waker.drain();
        }
    }

    /// Limits the time without acknowledgments, where other connections can take over.
    fn grow_impatient(&mut self) {
        if !self.impatient && self.shared.lock().limit == QueueLimit::Least {
            self.impatient = true;
            let fd = self.tcp.as_raw_fd();
            sockopt::set(fd, libc::SOL_TCP, libc::TCP_USER_TIMEOUT, SILENCE_MILLIS).ok();
        }
    }

    /// Fails if the peer leaves too much unread.
    fn check_unread(&self) -> io::Result<()> {
        if self.shared.lock().unread {
            return Err(io::Error::other(UNREAD));
        }
        Ok(())
    }

    /// Fails after too long a silence of the peer. Returns the time at which its silence is too long.
    fn check_silence(&self) -> io::Result<Instant> {
        let Some(silence_max) = self.shared.lock().silence_max else {
            return Ok(Instant::NEVER);
        };
        if self.clock.now().since(self.heard) > silence_max {
            let text = format!("no data from the peer for {} s", silence_max.as_secs_f32());
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        Ok(self.heard + silence_max + LOOK)
    }

    /// Writes queued frames to TCP. Returns whether all are written, and whether reading must pause.
    fn write_out(&mut self) -> io::Result<(bool, bool)> {
        loop {
            while self.protection.wants_write() {
                match self.protection.write(&self.tcp) {
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
            if !self.protection.wants_write() {
                return Ok((true, self.paused()));
            }
        }
    }

    /// Passes a frame to the protection. An empty frame makes the protection leave TLS.
    fn take(&mut self, mut frame: Vec<u8>) -> io::Result<()> {
        let len = frame.len();
        if len == 0 {
            let seal = self
                .shared
                .lock()
                .seals
                .as_mut()
                .and_then(|s| s.seal.take());
            return self.protection.leave(seal);
        }
        let mut taken = 0;
        while taken < len {
            match self.protection.take(&mut frame, taken)? {
                0 => self.write_blocking()?,
                more => taken += more,
            }
        }
        self.unwritten += len;
        Ok(())
    }

    /// Counts the protection's octets as written, and takes the next frames from the queue.
    fn count_written(&mut self) {
        let mut queues = self.shared.lock();
        // Wake waiting senders once the queue is half empty, not for each frame.
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

    /// Waits until TCP has taken some of the protection's octets.
    fn write_blocking(&mut self) -> io::Result<()> {
        let clock = Clock::start();
        let mut linger = None;
        while self.protection.wants_write() {
            if self.shared.lock().closing {
                let until = *linger.get_or_insert_with(|| clock.now() + LINGER);
                if clock.now() >= until {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            match self.protection.write(&self.tcp) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            self.tell();
            let mut watch = Watch::read(self.tcp.as_raw_fd());
            watch.write = true;
            wait(clock, &mut [watch], clock.now() + LOOK)?;
            if self.paused() {
                self.heard = self.clock.now();
            } else {
                self.read_in()?;
            }
            self.check_silence()?;
            self.check_unread()?;
        }
        Ok(())
    }

    fn paused(&self) -> bool {
        if self.behind.is_some() {
            return true;
        }
        self.shared.lock().are_full(self.assembly.waiting())
    }

    /// Reads from TCP. Returns true if octets arrived.
    fn read_in(&mut self) -> io::Result<bool> {
        if self.behind.is_some() {
            return Ok(false);
        }
        let unauthorized = self.shared.lock().unauthorized;
        let len = if unauthorized {
            READ_BYTES_UNAUTHORIZED
        } else {
            READ_BYTES
        };
        if self.came.len() != len {
            self.came = vec![0; len];
        }
        let came = match (&*self.tcp).read(&mut self.came) {
            Ok(0) => return Err(gone()),
            Ok(came) => came,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        self.heard = self.clock.now();
        self.understand(came)?;
        Ok(true)
    }

    /// Decodes the first `came` octets of the buffer.
    fn understand(&mut self, came: usize) -> io::Result<()> {
        let longest = self.shared.lock().frame_max();
        let knew = self.protection.receives_past_tls();
        let came = &self.came[..came];
        let arrived = |number, frame| self.arrived.push((number, frame));
        let understood = self
            .protection
            .understand(came, &mut self.assembly, longest, arrived);
        if let Ok(taken) = understood
            && knew != self.protection.receives_past_tls()
        {
            self.behind = Some(came[taken..].to_vec());
        }
        // Deliver the frames before the one that broke the protocol.
        self.route()?;
        understood.map(drop)
    }

    /// Decodes the octets behind the peer's marker frame, once their key is known.
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

    /// Hands arrived frames to their streams.
    fn route(&mut self) -> io::Result<()> {
        let mut queues = self.shared.lock();
        for (number, frame) in self.arrived.drain(..) {
            if !queues.incoming.contains_key(&number) && queues.incoming.len() >= STREAMS_MAX {
                return Err(io::Error::other("the peer opened too many streams"));
            }
            queues.incoming_bytes += frame.cost();
            self.unreported += frame.cost();
            let incoming = queues.incoming.entry(number).or_default();
            incoming.frames.push_back(frame);
            incoming.unreported = true;
        }
        drop(queues);
        if self.unreported > UNREPORTED_BYTES {
            self.tell();
        }
        Ok(())
    }

    /// Wakes the streams that have new frames. Called once per batch, since a wake-up costs more than moving a frame.
    fn tell(&mut self) {
        if self.unreported == 0 {
            return;
        }
        self.unreported = 0;
        for incoming in self.shared.lock().incoming.values_mut() {
            if std::mem::take(&mut incoming.unreported)
                && let Some(waker) = &incoming.waker
            {
                waker.raise();
            }
        }
    }
}

/// Discards further bytes of the peer until the peer closes the connection, too. A socket that is closed with unread
/// octets resets its connection, which can destroy the last frames on their way to the peer.
fn await_end_of_peer(mut tcp: &TcpStream, clock: Clock) -> io::Result<()> {
    tcp.shutdown(Shutdown::Write)?;
    let until = clock.now() + FAREWELL;
    let mut came = vec![0; READ_BYTES_UNAUTHORIZED];
    let mut left = DISCARDED_MAX;
    while left > 0 && clock.now() < until {
        match tcp.read(&mut came) {
            Ok(0) => break,
            Ok(count) => left = left.saturating_sub(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(clock, &mut [Watch::read(tcp.as_raw_fd())], until)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
