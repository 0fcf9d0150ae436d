//! Thread of one link: receives messages, sends queued messages, and calls the neighbor again.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::control::Frame;
use lighthaul_io::crypto::identity::random_octets;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::{Watch, pause, wait};
use lighthaul_stargate::Message;
use lighthaul_stargate::wire::LEN_MAX;
use tracing::{info, warn};

use crate::caller::{Backoff, call};
use crate::endpoints::{Deliver, Identification};
use crate::greeting;
use crate::link::{Connection, KEEPALIVE, Link};
use crate::link_fault::LinkFault;
use lighthaul_io::host::wall_clock::wall_now;

/// Thread of one link.
pub(crate) struct LinkThread {
    link: Arc<Link>,
    known: Arc<Identification>,
    deliver: Deliver,
    stop: Arc<AtomicBool>,
    clock: Clock,
    backoff: Backoff,
    /// Connection of the last turn.
    present: Option<u64>,
    keepalive_at: Instant,
    /// True if the clock of the neighbor differed too much at its last message.
    has_clock_differed: bool,
}

impl LinkThread {
    pub(crate) fn new(
        link: Arc<Link>,
        known: Arc<Identification>,
        deliver: Deliver,
        (stop, clock): (Arc<AtomicBool>, Clock),
    ) -> Self {
        // the domain with the lower number calls first, since its connection is the one that is kept
        if link.me > link.neighbor {
            link.call_at(clock.now() + HEAD_START);
        }
        Self {
            link,
            known,
            deliver,
            stop,
            clock,
            backoff: Backoff::new(u64::from_ne_bytes(random_octets())),
            present: None,
            keepalive_at: Instant::ZERO,
            has_clock_differed: false,
        }
    }

    /// Carries messages until the transport stops.
    pub(crate) fn run(mut self) {
        loop {
            // the waker is lowered first, so that a stop after this look still wakes the thread
            self.link.wake.lower();
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            let connection = self.link.connection();
            let until = match &connection {
                Some(connection) => match self.carry(connection) {
                    Ok(until) => until,
                    Err(fault) => {
                        self.end(connection.number, fault);
                        continue;
                    }
                },
                None => self.call_again(),
            };
            let wake = self.link.wake.as_raw_fd();
            let stream = connection.as_ref().map(|one| one.stream.as_raw_fd());
            // a negative descriptor is ignored
            let mut watches = [Watch::read(wake), Watch::read(stream.unwrap_or(-1))];
            if wait(self.clock, &mut watches, until).is_err() {
                pause(PAUSE);
            }
            self.link.wake.drain();
            if let Some(connection) = &connection {
                connection.stream.woken();
            }
        }
    }

    /// Receives the messages that arrived and sends the queued messages. Returns the time of the next empty frame.
    fn carry(&mut self, connection: &Connection) -> Result<Instant, LinkFault> {
        let domain = self.link.neighbor.0;
        let now = self.clock.now();
        if self.present != Some(connection.number) {
            self.present = Some(connection.number);
            self.keepalive_at = now + KEEPALIVE;
        }
        let expires = self.known.neighbors.get(&self.link.neighbor);
        if expires.is_none_or(|neighbor| wall_now() >= neighbor.expires) {
            return Err(LinkFault::Expired { domain });
        }
        let mut is_greeted = connection.is_greeted;
        let (mut count, mut frames) = (0, 0);
        let received = loop {
            if frames == TURN_MAX {
                // the descriptor of the stream stays readable
                break Ok(());
            }
            frames += 1;
            match connection.stream.try_receive() {
                Ok(Some(frame)) => match self.take(connection.number, is_greeted, frame) {
                    Ok(messages) => (is_greeted, count) = (true, count + messages),
                    Err(fault) => break Err(fault),
                },
                Ok(None) => break Ok(()),
                Err(_) if !is_greeted => {
                    let (me, key) = (self.link.me.0, self.known.key);
                    break Err(LinkFault::NotGreeted { domain, me, key });
                }
                Err(error) => {
                    let why = error.to_string();
                    break Err(LinkFault::Network { domain, why });
                }
            }
        };
        self.link.count_received(count);
        received?;
        self.link.flush(now);
        if now >= self.keepalive_at {
            self.keepalive_at = now + KEEPALIVE;
            self.link.keep_alive();
        }
        Ok(self.keepalive_at)
    }

    /// Takes a frame. Returns the number of messages in it: an empty frame has none.
    fn take(&mut self, number: u64, is_greeted: bool, frame: Frame) -> Result<u64, LinkFault> {
        let (domain, me) = (self.link.neighbor, self.link.me);
        let octets = frame.octets;
        if !is_greeted {
            greeting::check(&octets, domain, me)?;
            self.link.greeted(number);
            self.backoff.reset();
            info!(domain = domain.0, "neighbor connected");
            return Ok(0);
        }
        if octets.is_empty() {
            return Ok(0);
        }
        if octets.len() > LEN_MAX {
            return Err(LinkFault::Long {
                domain: domain.0,
                len: octets.len(),
                most: LEN_MAX,
            });
        }
        let malformed = LinkFault::Malformed { domain: domain.0 };
        if frame.datagram {
            return Err(malformed);
        }
        let message = Message::decode(&octets).map_err(|_| malformed)?;
        self.compare_clocks(message.sent);
        if !(self.deliver)(domain, message) {
            // the service has ended
            self.stop.store(true, Ordering::Release);
        }
        Ok(1)
    }

    /// Compares the clock of the neighbor with this one by the time of a message. A difference is logged once: committed
    /// paths change at other times in the neighbor.
    fn compare_clocks(&mut self, sent: Instant) {
        let offset = self.link.note_clock(sent, wall_now());
        let (domain, apart) = (
            self.link.neighbor.0,
            Duration::from_nanos(offset.unsigned_abs()),
        );
        let differs = apart > self.known.clock_tolerance;
        if differs && !self.has_clock_differed {
            let (side, secs) = (
                if offset > 0 { "ahead" } else { "behind" },
                apart.as_secs_f64(),
            );
            warn!(
                domain,
                "the clock of neighbor {domain} is {secs:.1} s {side}, so paths begin and end at other times there; \
                 synchronize both clocks"
            );
        } else if !differs && self.has_clock_differed {
            info!(domain, "the clock of the neighbor is right again");
        }
        self.has_clock_differed = differs;
    }

    fn end(&mut self, number: u64, fault: LinkFault) {
        let text = fault.to_string();
        if self.link.end(number, fault) {
            warn!("{text}");
            self.link.call_at(self.clock.now() + self.backoff.delay());
        }
    }

    /// Starts a call if it is due. Returns the time of the next one.
    fn call_again(&mut self) -> Instant {
        let now = self.clock.now();
        self.link.flush(now);
        let neighbor = self.known.neighbors.get(&self.link.neighbor);
        let Some(address) = neighbor.and_then(|neighbor| neighbor.address.clone()) else {
            return Instant::NEVER;
        };
        match self.link.begin_call(now) {
            Ok(()) => {
                self.link.call_at(now + self.backoff.delay());
                let (link, known) = (Arc::clone(&self.link), Arc::clone(&self.known));
                let started = thread::Builder::new()
                    .name("call".into())
                    .spawn(move || call(&link, &known, &address));
                if started.is_err() {
                    self.link.end_call(None);
                }
                Instant::NEVER
            }
            Err(at) => at,
        }
    }
}

/// Maximum number of frames that are received before others are sent.
const TURN_MAX: usize = 256;
/// Time in which only the domain with the lower number calls.
const HEAD_START: Duration = Duration::from_millis(300);
/// Time before the next attempt after a fault of this host.
const PAUSE: Duration = Duration::from_millis(100);
