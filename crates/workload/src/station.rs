//! Gateway with its programs in virtual time, for simulations. Bytes are only counted.
//!
//! A [`Station`] feeds the real machine of a link with programs that send at given rates. It checks
//! that every session of the peer arrives in order, completely and with its end. The load is a
//! function of the time alone, so equal seeds give equal runs.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::{Deadline, Endpoint, Instant, Message, Rate, Span, Transmit};
use lighthaul_slabs::receiver::CompleteRecord;
use lighthaul_slabs::{Event, Link, PeerMisbehaved, SessionId};

/// One side of a link, with programs that send to the other side.
#[derive(Debug)]
pub struct Station {
    /// Link to the other gateway.
    pub link: Link,
    programs: Vec<Program>,
    incoming: BTreeMap<SessionId, IncomingSession>,
    /// Maximum number of bytes of local programs that wait or are in flight.
    memory: u64,
    /// True if local programs are read only in whole pages.
    in_pages: bool,
    /// Numbers of the peer's programs that are not read.
    unread: Vec<u8>,
    /// Maximum number of bytes that were stored for local programs.
    held_max: u64,
    seen: Instant,
    events: VecDeque<StationEvent>,
}

/// Program that sends a number of bytes, and then ends its session.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Number of the program: the last octet of its session ID.
    pub number: u8,
    /// Start time.
    pub start: Instant,
    /// Number of bytes to send.
    pub bytes: u64,
    /// Maximum rate.
    pub rate: Rate,
    /// True if the program does not catch up after it was blocked.
    steady: bool,
    sent_bytes: u64,
    opened: bool,
}

/// Received data of a session of the peer.
#[derive(Debug, Default)]
struct IncomingSession {
    out_of_order: BTreeMap<u64, (u32, u64, Option<u64>)>,
    reached: u64,
    held_bytes: u64,
}

/// Event of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StationEvent {
    /// More bytes of a session have arrived in order; the total is given.
    Reached(SessionId, u64),
    /// A session has arrived completely, and its end is consistent.
    Ended(SessionId),
    /// No datagram reaches the peer.
    DatagramsLost,
    /// The link failed.
    Failed(PeerMisbehaved),
    /// The data of a session differs from the sent data.
    Wrong(SessionId),
}

impl Program {
    /// Returns a program that starts at `start`.
    pub const fn new(number: u8, start: Instant, bytes: u64, rate: Rate) -> Self {
        Self {
            number,
            start,
            bytes,
            rate,
            steady: false,
            sent_bytes: 0,
            opened: false,
        }
    }

    /// Makes the program never exceed its rate, even after a pause.
    #[must_use]
    pub const fn steady(mut self) -> Self {
        self.steady = true;
        self
    }

    fn session(&self) -> SessionId {
        let mut name = [0; 16];
        name[15] = self.number;
        SessionId(name)
    }

    /// Returns the number of bytes that the program wants to have sent by `now`.
    fn due(&self, now: Instant) -> u64 {
        let most = self.rate.bytes_in(now.since(self.start));
        self.bytes.min(most)
    }
}

impl Station {
    /// Returns a station with `programs`. Together they may have `memory` bytes waiting and in flight.
    pub fn new(link: Link, programs: Vec<Program>, memory: u64) -> Self {
        Self {
            link,
            programs,
            incoming: BTreeMap::new(),
            memory,
            in_pages: false,
            unread: Vec::new(),
            held_max: 0,
            seen: Instant::ZERO,
            events: VecDeque::new(),
        }
    }

    /// Never reads the peer's sessions with the given numbers.
    #[must_use]
    pub fn deaf_to(mut self, numbers: &[u8]) -> Self {
        self.unread = numbers.into();
        self
    }

    /// Reads local programs only in whole pages, except at their end, as if they always had data.
    #[must_use]
    pub const fn in_pages(mut self) -> Self {
        self.in_pages = true;
        self
    }

    /// Returns the maximum number of bytes that were stored for local programs.
    pub const fn held_max(&self) -> u64 {
        self.held_max
    }

    /// True if all programs have sent all bytes, and the peer has custody of them.
    pub fn is_done(&self) -> bool {
        let sent_bytes = |program: &Program| program.opened && program.sent_bytes > program.bytes;
        self.programs.iter().all(sent_bytes) && self.link.sender().held_slabs() == 0
    }

    /// Takes the data that programs want to send by `now`.
    fn work(&mut self, now: Instant) {
        self.seen = now;
        let page_len = u64::from(self.link.config().page_len());
        for nth in 0..self.programs.len() {
            let program = self.programs[nth];
            let session = program.session();
            if now < program.start || program.sent_bytes > program.bytes {
                continue;
            }
            if !program.opened {
                self.link.open(session, b"");
                self.programs[nth].opened = true;
            }
            let mut sent_bytes = program.sent_bytes;
            while sent_bytes < program.due(now) {
                let flow = self.link.flow(session);
                let held = flow.map_or(0, |flow| flow.queued_bytes() + flow.in_flight());
                let len = (program.due(now) - sent_bytes).min(page_len);
                let is_short = self.in_pages && len < page_len && sent_bytes + len < program.bytes;
                if is_short {
                    break;
                }
                if held + len > self.memory / self.programs.len() as u64 {
                    if program.steady {
                        self.programs[nth].start = now - program.rate.time_for(sent_bytes);
                    }
                    break;
                }
                self.link.supply(now, session, len as u32);
                sent_bytes += len;
            }
            if sent_bytes == program.bytes {
                self.link.finish(session, sent_bytes);
                sent_bytes += 1;
            }
            self.programs[nth].sent_bytes = sent_bytes;
        }
        self.launch(now);
    }

    fn launch(&mut self, now: Instant) {
        while let Some(plan) = self.link.form(now) {
            let crcs: Vec<u32> = plan.runs.iter().map(|(_, run)| run.len()).collect();
            self.link.launch(plan, &crcs);
        }
    }

    fn drain(&mut self) {
        while let Some(event) = self.link.poll_event() {
            match event {
                Event::Opened(session, _) => {
                    self.incoming.insert(session, IncomingSession::default());
                    self.link.answer(session, true, b"");
                    // the programs here only receive
                    self.link.finish(session, 0);
                }
                Event::Complete(whole) => self.take(&whole),
                Event::SlabReady => self.launch(self.seen),
                Event::Failed(why) => self.events.push_back(StationEvent::Failed(why)),
                Event::DatagramsLost => self.events.push_back(StationEvent::DatagramsLost),
                Event::Answered(..)
                | Event::Reset(..)
                | Event::Kept(_)
                | Event::Widened(_)
                | Event::Silent
                | Event::Exhausted => {}
            }
        }
    }

    fn take(&mut self, whole: &CompleteRecord) {
        let record = whole.part.record;
        let pages = whole.part.pages.end - whole.part.pages.start;
        self.link.judge(whole, record.crc == record.len);
        let Some(incoming) = self.incoming.get_mut(&record.session) else {
            let is_ours = |program: &Program| program.session() == record.session;
            if record.len > 0 || !self.programs.iter().any(is_ours) {
                self.events.push_back(StationEvent::Wrong(record.session));
            }
            return;
        };
        incoming.held_bytes += u64::from(record.len);
        incoming
            .out_of_order
            .insert(record.offset, (record.len, pages, record.end));
        while let Some((len, pages, end)) = incoming.out_of_order.remove(&incoming.reached) {
            incoming.reached += u64::from(len);
            if !self.unread.contains(&record.session.0[15]) {
                incoming.held_bytes -= u64::from(len);
                self.link.free(pages);
                let window = u64::from(self.link.config().window);
                self.link.allow(record.session, incoming.reached + window);
            }
            let event = match end {
                None => StationEvent::Reached(record.session, incoming.reached),
                Some(digest) if digest == incoming.reached => StationEvent::Ended(record.session),
                Some(_) => StationEvent::Wrong(record.session),
            };
            self.events.push_back(event);
            if len == 0 {
                break;
            }
        }
        let held = self
            .incoming
            .values()
            .map(|incoming| incoming.held_bytes)
            .sum();
        self.held_max = self.held_max.max(held);
    }

    /// Returns the next time at which a program sends.
    fn wakes(&self) -> Instant {
        let wakes = self.programs.iter().filter_map(|program| {
            if program.sent_bytes > program.bytes {
                None
            } else if program.start > self.seen {
                Some(program.start)
            } else {
                Some(self.seen + TICK)
            }
        });
        wakes.min().unwrap_or(Instant::NEVER)
    }
}

impl Endpoint for Station {
    type Event = StationEvent;

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        let span = self.link.handle_message(now, message);
        self.seen = now;
        self.drain();
        span
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.link.handle_timeout(now);
        self.work(now);
        self.drain();
    }

    fn handle_rate(&mut self, now: Instant, rate: Rate) {
        self.link.handle_rate(now, rate);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let transmit = self.link.poll_transmit(now);
        if transmit.is_none() {
            self.drain();
            return self.link.poll_transmit(now);
        }
        transmit
    }

    fn poll_event(&mut self) -> Option<StationEvent> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let ours = Deadline {
            at: self.wakes(),
            why: "program",
        };
        let link = self.link.poll_timeout();
        Some(link.map_or(ours, |link| if link.at < ours.at { link } else { ours }))
    }
}

/// Interval at which sending programs are polled.
const TICK: Duration = Duration::from_millis(1);
