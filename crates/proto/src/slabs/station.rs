//! A gateway and its programs in virtual time, where bytes are only counted: what the owner of a link does, for simulations.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::{Deadline, Endpoint, Instant, Message, Rate, Span, Transmit};

use super::receiver::Whole;
use super::{Event, Link, PeerMisbehaved, SessionId};

/// One side of a link, with programs that talk to others at the far side.
#[derive(Debug)]
pub struct Station {
    /// The link.
    pub link: Link,
    programs: Vec<Program>,
    heard: BTreeMap<SessionId, Heard>,
    /// Bytes that programs here may have waiting and under way.
    memory: u64,
    /// Programs here are only read from in whole pages.
    in_pages: bool,
    /// Programs of the far side are not read from, by these numbers.
    deaf: Vec<u8>,
    /// The most that was held for programs here.
    held_max: u64,
    seen: Instant,
    events: VecDeque<Told>,
}

/// A program that says so many bytes, and then no more.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The last octet of its session's name.
    pub number: u8,
    /// When it begins.
    pub start: Instant,
    /// How much it says.
    pub bytes: u64,
    /// How fast, at most.
    pub rate: Rate,
    /// What it could not say in time it says later, no faster than the rest.
    steady: bool,
    said: u64,
    opened: bool,
}

/// What came of a session of the far side.
#[derive(Debug, Default)]
struct Heard {
    early: BTreeMap<u64, (u32, u64, Option<u64>)>,
    reached: u64,
    held_bytes: u64,
}

/// What a station tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// More of a session of the far side came in order: so much of it by now.
    Reached(SessionId, u64),
    /// All of it came, and the end is where it should be.
    Ended(SessionId),
    /// No datagram reaches the far side.
    Dark,
    /// The link failed.
    Failed(PeerMisbehaved),
    /// What came is not what was said.
    Wrong(SessionId),
}

impl Program {
    /// A program that begins then.
    pub const fn new(number: u8, start: Instant, bytes: u64, rate: Rate) -> Self {
        Self {
            number,
            start,
            bytes,
            rate,
            steady: false,
            said: 0,
            opened: false,
        }
    }

    /// One that is never faster than its rate, even if it could not say anything for a while.
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

    /// What it would have said by then.
    fn due(&self, now: Instant) -> u64 {
        let most = self.rate.bytes_in(now.since(self.start));
        self.bytes.min(most)
    }
}

impl Station {
    /// A station of these programs; together they may have `memory` bytes waiting and under way.
    pub fn new(link: Link, programs: Vec<Program>, memory: u64) -> Self {
        Self {
            link,
            programs,
            heard: BTreeMap::new(),
            memory,
            in_pages: false,
            deaf: Vec::new(),
            held_max: 0,
            seen: Instant::ZERO,
            events: VecDeque::new(),
        }
    }

    /// The far side's sessions with these numbers are never read from.
    #[must_use]
    pub fn deaf_to(mut self, numbers: &[u8]) -> Self {
        self.deaf = numbers.into();
        self
    }

    /// Programs here are read from in whole pages, but at their end: as those that are ahead of who reads.
    #[must_use]
    pub const fn in_pages(mut self) -> Self {
        self.in_pages = true;
        self
    }

    /// The most bytes that were held for programs here at any time.
    pub const fn held_max(&self) -> u64 {
        self.held_max
    }

    /// Whether all programs have said all, and it is in the far side's custody.
    pub fn is_done(&self) -> bool {
        let said = |program: &Program| program.opened && program.said > program.bytes;
        self.programs.iter().all(said) && self.link.sender().held_slabs() == 0
    }

    /// Lets programs say what they would by now.
    fn work(&mut self, now: Instant) {
        self.seen = now;
        let page_len = u64::from(self.link.config().page_len());
        for nth in 0..self.programs.len() {
            let program = self.programs[nth];
            let session = program.session();
            if now < program.start || program.said > program.bytes {
                continue;
            }
            if !program.opened {
                self.link.open(session, b"");
                self.programs[nth].opened = true;
            }
            let mut said = program.said;
            while said < program.due(now) {
                let flow = self.link.flow(session);
                let held = flow.map_or(0, |flow| flow.queued_bytes() + flow.in_flight());
                let len = (program.due(now) - said).min(page_len);
                let is_short = self.in_pages && len < page_len && said + len < program.bytes;
                if is_short {
                    break;
                }
                if held + len > self.memory / self.programs.len() as u64 {
                    if program.steady {
                        self.programs[nth].start = now - program.rate.time_for(said);
                    }
                    break;
                }
                self.link.supply(now, session, len as u32);
                said += len;
            }
            if said == program.bytes {
                self.link.finish(session, said);
                said += 1;
            }
            self.programs[nth].said = said;
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
                    self.heard.insert(session, Heard::default());
                    self.link.answer(session, true, b"");
                    // programs here only listen
                    self.link.finish(session, 0);
                }
                Event::Whole(whole) => self.take(&whole),
                Event::Ripe => self.launch(self.seen),
                Event::Failed(why) => self.events.push_back(Told::Failed(why)),
                Event::Dark => self.events.push_back(Told::Dark),
                Event::Answered(..)
                | Event::Reset(..)
                | Event::Kept(_)
                | Event::Widened(_)
                | Event::Silent
                | Event::Spent => {}
            }
        }
    }

    fn take(&mut self, whole: &Whole) {
        let record = whole.part.record;
        let pages = whole.part.pages.end - whole.part.pages.start;
        self.link.judge(whole, record.crc == record.len);
        let Some(heard) = self.heard.get_mut(&record.session) else {
            let is_ours = |program: &Program| program.session() == record.session;
            if record.len > 0 || !self.programs.iter().any(is_ours) {
                self.events.push_back(Told::Wrong(record.session));
            }
            return;
        };
        heard.held_bytes += u64::from(record.len);
        heard
            .early
            .insert(record.offset, (record.len, pages, record.end));
        while let Some((len, pages, end)) = heard.early.remove(&heard.reached) {
            heard.reached += u64::from(len);
            if !self.deaf.contains(&record.session.0[15]) {
                heard.held_bytes -= u64::from(len);
                self.link.free(pages);
                let window = u64::from(self.link.config().window);
                self.link.allow(record.session, heard.reached + window);
            }
            let told = match end {
                None => Told::Reached(record.session, heard.reached),
                Some(digest) if digest == heard.reached => Told::Ended(record.session),
                Some(_) => Told::Wrong(record.session),
            };
            self.events.push_back(told);
            if len == 0 {
                break;
            }
        }
        let held = self.heard.values().map(|heard| heard.held_bytes).sum();
        self.held_max = self.held_max.max(held);
    }

    /// When a program next says something.
    fn wakes(&self) -> Instant {
        let wakes = self.programs.iter().filter_map(|program| {
            if program.said > program.bytes {
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
    type Event = Told;

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

    fn poll_event(&mut self) -> Option<Told> {
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

/// How often programs that talk are looked at.
const TICK: Duration = Duration::from_millis(1);
