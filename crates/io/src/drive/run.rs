//! Event loop: transmits, delivers events, and waits for the next message or deadline.
//!
//! [`run`] drives any [`Endpoint`] over a [`Lane`] in the calling thread. The machine decides on packets and times; the
//! [`Owner`] handles its events and the end. The loop sleeps in one place only, until the earliest deadline.

use std::mem;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use lighthaul_base::{Endpoint, Instant, Load, Rate};

use super::lane::Lane;
use crate::control::Stream;
use crate::error::Error;
use crate::host::clock::lower_timer_slack;
use crate::host::interrupt;
use crate::host::wait::{Watch, wait};
use crate::net::scatter::Scatter;
use crate::net::train::Train;
use crate::store::Store;

/// Interval between calls of [`Owner::tick`].
const TICK: Duration = Duration::from_millis(10);
/// Limit of further streams of a lane.
pub const MORE_MAX: usize = 32;
/// Size of the receive buffer in bytes: more than the kernel coalesces.
pub(super) const RECEPTION_MAX: usize = 1 << 16;

/// Continuation that an owner chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Continue the loop.
    Continue,
    /// Carry datagrams on the stream from now on, because UDP does not pass.
    Divert,
    /// Leave the loop.
    Finish,
}

/// Owner of a machine, which receives its events.
pub trait Owner<E: Endpoint> {
    /// Handles an event of the machine.
    fn event(&mut self, endpoint: &mut E, event: E::Event, now: Instant) -> Result<Next, Error>;
    /// Checks the state about every 10 ms, and each time that [`Owner::waker`] is readable.
    fn tick(&mut self, endpoint: &mut E, now: Instant) -> Result<Next, Error>;
    /// Returns a descriptor that wakes the loop, and calls [`Owner::tick`], when it is readable.
    fn waker(&self) -> Option<RawFd> {
        None
    }
}

/// Runs `endpoint` over `lane` until its owner returns [`Next::Finish`]. Panics above 32 further streams.
pub fn run<E: Endpoint, S: Store>(
    endpoint: &mut E,
    lane: &mut Lane,
    store: &mut S,
    owner: &mut impl Owner<E>,
) -> Result<(), Error> {
    lower_timer_slack();
    assert!(
        lane.more.len() <= MORE_MAX,
        "a lane has at most MORE_MAX further streams"
    );
    let mut driver = Driver {
        endpoint,
        lane,
        store,
        train: Train::new(),
        reception: vec![0; RECEPTION_MAX],
        scatter: Scatter::new(),
        expected: 0,
        load: Load::default(),
        has_looked: false,
        rate: None,
        drops: 0,
        broken: Vec::new(),
        is_diverted: false,
    };
    driver.run(owner)
}

/// State of the loop: the machine with its lane and store.
// fields: the parts of one loop, which its functions share
pub(super) struct Driver<'a, E, S> {
    pub(super) endpoint: &'a mut E,
    pub(super) lane: &'a mut Lane,
    pub(super) store: &'a mut S,
    pub(super) train: Train,
    pub(super) reception: Vec<u8>,
    pub(super) scatter: Scatter,
    /// Offset at which the next body of the object is expected.
    pub(super) expected: u64,
    pub(super) load: Load,
    /// True if the competition was measured in this turn.
    has_looked: bool,
    /// Rate that the machine received last.
    rate: Option<Rate>,
    pub(super) drops: u32,
    /// Indices of broken further streams.
    pub(super) broken: Vec<usize>,
    /// True once datagrams leave on the stream, since UDP does not pass.
    pub(super) is_diverted: bool,
}

impl<E: Endpoint, S: Store> Driver<'_, E, S> {
    fn run(&mut self, owner: &mut impl Owner<E>) -> Result<(), Error> {
        let clock = self.lane.clock;
        let mut tick = clock.now();
        let mut readable = true;
        let mut woken = false;
        loop {
            if self.look_around() {
                self.tell_load(clock.now());
            }
            let mut busy = self.take_frames()?;
            // After the frames: an answer may make the machine send again.
            self.store.read_ahead_for(self.endpoint)?;
            busy |= self.take_from_more(clock.now())?;
            if readable {
                readable = self.take_trains()?;
                busy |= readable;
                if !readable && let Some(competition) = &mut self.lane.competition {
                    self.has_looked |= competition.emptied();
                }
            }
            let now = clock.now();
            if self
                .endpoint
                .poll_timeout()
                .is_some_and(|deadline| deadline.at <= now)
            {
                self.endpoint.handle_timeout(now);
            }
            self.tell_load(now);
            self.tell_rate(now);
            busy |= match self.transmit(now) {
                // A peer may close after its last frame: read that before failing.
                Err(Error::Network(_)) if self.take_frames()? => true,
                sent => sent?,
            };
            while let Some(event) = self.endpoint.poll_event() {
                let next = owner.event(self.endpoint, event, now)?;
                if self.obey(next, now) {
                    self.transmit(now)?;
                    return Ok(());
                }
            }
            if tick <= now || woken {
                interrupt::check()?;
                busy |= woken;
                woken = false;
                tick = now + TICK;
                let next = owner.tick(self.endpoint, now)?;
                if self.obey(next, now) {
                    return Ok(());
                }
            }
            if !busy {
                (readable, woken) = self.wait(tick, owner.waker())?;
            }
        }
    }

    /// Applies the owner's choice. Returns true if the loop must end.
    fn obey(&mut self, next: Next, now: Instant) -> bool {
        if next == Next::Divert {
            self.is_diverted = true;
            self.lane.udp = None;
            self.lane.share = None;
            self.endpoint.handle_rate(now, Rate::UNLIMITED);
        }
        next == Next::Finish
    }

    /// Waits for input or a deadline. Returns whether the socket is readable, and whether the owner's sign is.
    fn wait(&mut self, tick: Instant, sign: Option<RawFd>) -> Result<(bool, bool), Error> {
        let deadline = self
            .endpoint
            .poll_timeout()
            .filter(|_| self.has_room())
            .map_or(tick, |deadline| deadline.at.min(tick));
        let stream = Watch::read(self.lane.stream.as_raw_fd());
        let mut watches = [stream; 3 + MORE_MAX];
        // poll(2) ignores negative descriptors.
        let socket = self.lane.udp.as_ref().map(AsRawFd::as_raw_fd);
        watches[1].fd = socket.unwrap_or(-1);
        watches[2].fd = sign.unwrap_or(-1);
        let mut count = 3;
        for (index, stream) in self.lane.more.iter().enumerate() {
            if !self.broken.contains(&index) {
                watches[count].fd = stream.as_raw_fd();
                count += 1;
            }
        }
        wait(self.lane.clock, &mut watches[..count], deadline)
            .map_err(|error| Error::world("cannot wait for datagrams", error))?;
        if watches[0].readable {
            self.lane.stream.woken();
        }
        for watch in &watches[3..count] {
            if watch.readable {
                let stream = self.lane.more.iter().find(|s| s.as_raw_fd() == watch.fd);
                stream.into_iter().for_each(Stream::woken);
            }
        }
        Ok((watches[1].readable, watches[2].readable))
    }

    /// Measures competition for the processor, before the socket is emptied. Returns true if it measured.
    fn look_around(&mut self) -> bool {
        if let Some(competition) = &mut self.lane.competition {
            let socket = self.lane.udp.as_ref().map(AsRawFd::as_raw_fd);
            self.has_looked = competition.look(self.lane.clock.now(), socket);
        }
        self.has_looked
    }

    fn tell_load(&mut self, now: Instant) {
        let mut load = self.store.load();
        if let Some(competition) = &self.lane.competition {
            load = competition.load(load);
        }
        // With competition, the receiver must advertise its state even if unchanged.
        let has_looked = mem::take(&mut self.has_looked);
        if load != self.load || has_looked && load.is_shared {
            self.load = load;
            self.endpoint.handle_load(now, load);
        }
    }

    fn tell_rate(&mut self, now: Instant) {
        let part = self.lane.share.as_ref().map(|share| share.part());
        if let Some(rate) = part.filter(|_| part != self.rate) {
            self.endpoint.handle_rate(now, rate);
        }
        self.rate = part;
    }
}
