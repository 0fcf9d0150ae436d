//! SLaBS: its decoders, and two ends of a link with any sequence of calls.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use lighthaul_base::{Endpoint, Instant, Message, Rate, Reader, Transmit, Trc, Via};
use lighthaul_slabs::receiver::CompleteRecord;
use lighthaul_slabs::wire::{Control, Packet};
use lighthaul_slabs::{Config, Event, Link, SessionId};

/// Decodes any octets. What decodes encodes to the same value.
pub fn wire(octets: &[u8]) {
    for (turns, first) in [(0, 0), (1 << 40, 1 << 30), (u64::MAX, u64::MAX)] {
        if let Ok(packet) = Packet::decode(octets, turns, first) {
            assert_eq!(packet.encode(), octets);
        }
    }
    if let Ok(message) = Control::decode(octets) {
        assert_eq!(Control::decode(&message.encode()), Ok(message));
    }
}

/// Reads the octets as a link and a list of calls, and makes them on its two ends.
pub fn machines(octets: &[u8]) {
    let mut reader = Reader::new(octets);
    let Some(config) = config(&mut reader) else {
        return;
    };
    let mut pair = Ends {
        now: Instant::ZERO,
        ends: [End::new(config), End::new(config)],
    };
    loop {
        pair.drain();
        if pair.call(&mut reader).is_none() {
            return;
        }
    }
}

fn config(reader: &mut Reader<'_>) -> Option<Config> {
    let packet_len = u32::from(reader.u16().ok()?);
    let config = Config {
        packet_len,
        overhead_len: u32::from(reader.u8().ok()?),
        stream: STREAM,
        burst: None,
        settle: Duration::from_micros(u64::from(reader.u16().ok()?)),
        ack_every: Duration::from_micros(u64::from(reader.u16().ok()?) + 1),
        patience: Duration::from_secs(5),
        slab_pages: u32::from(reader.u8().ok()?),
        age: Duration::from_micros(u64::from(reader.u16().ok()?)),
        pages_max: u32::from(reader.u8().ok()?),
        window: u32::from(reader.u8().ok()?).saturating_mul(packet_len),
    };
    config.check().ok()?;
    Some(config)
}

/// Both ends, and the messages in flight to each.
struct Ends {
    now: Instant,
    ends: [End; 2],
}

/// One end, the state of its owner, and the messages in flight to it.
struct End {
    link: Link,
    /// Known sessions, with true after the last data of a session.
    sessions: BTreeMap<SessionId, bool>,
    whole: VecDeque<CompleteRecord>,
    /// Pages in the custody of this end.
    custody: u64,
    turns: BTreeSet<Vec<u8>>,
    messages: VecDeque<Transmit>,
    datagrams: Vec<Transmit>,
}

impl End {
    fn new(config: Config) -> Self {
        Self {
            link: Link::new(Instant::ZERO, config, None),
            sessions: BTreeMap::new(),
            whole: VecDeque::new(),
            custody: 0,
            turns: BTreeSet::new(),
            messages: VecDeque::new(),
            datagrams: Vec::new(),
        }
    }

    /// Delivers any message to the link.
    fn hand(&mut self, now: Instant, message: Message<'_>) {
        let len = message.len;
        if let Some(span) = self.link.handle_message(now, message) {
            assert!(span.len == len && span.len > 0);
        }
    }

    fn deliver(&mut self, now: Instant, transmit: &Transmit) {
        let message = Message {
            via: transmit.via,
            head: &transmit.octets(),
            len: transmit.body.object_len(),
        };
        self.hand(now, message);
    }

    /// Delivers all messages in flight, in order.
    fn deliver_all(&mut self, now: Instant) {
        let messages = std::mem::take(&mut self.messages);
        let datagrams = std::mem::take(&mut self.datagrams);
        for transmit in messages.iter().chain(&datagrams) {
            self.deliver(now, transmit);
        }
    }

    /// Delivers the next message, and one of the datagrams, which may be delivered again.
    fn deliver_one(&mut self, now: Instant, nth: usize) {
        if let Some(message) = self.messages.pop_front() {
            self.deliver(now, &message);
        }
        if !self.datagrams.is_empty() {
            let datagram = self.datagrams[nth % self.datagrams.len()].clone();
            self.deliver(now, &datagram);
        }
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Opened(session, _) => {
                self.sessions.insert(session, false);
            }
            Event::Answered(session, accepted, _) => {
                if !accepted {
                    self.sessions.remove(&session);
                }
            }
            Event::Reset(session, _) => {
                self.sessions.remove(&session);
            }
            Event::Complete(whole) => self.whole.push_back(whole),
            Event::Kept(parts) => assert!(!parts.is_empty()),
            Event::Widened(_)
            | Event::SlabReady
            | Event::DatagramsLost
            | Event::Silent
            | Event::Exhausted
            | Event::Failed(_) => {}
        }
    }

    fn form(&mut self, now: Instant) {
        while let Some(plan) = self.link.form(now) {
            let crcs = vec![0; plan.runs.len()];
            self.link.launch(plan, &crcs);
        }
    }
}

impl Ends {
    fn call(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let first = reader.u8().ok()?;
        let side = usize::from(first >> 7);
        let now = self.now;
        let end = &mut self.ends[side];
        match first & 0x7f {
            0 => self.now += Duration::from_nanos(u64::from(reader.u32().ok()?)),
            1 => {
                let rate = Rate::from_bps(reader.u64().ok()?);
                end.link.follow(now, rate.map(Trc::steady));
            }
            2..=6 => about(end, first & 0x7f, now, reader)?,
            7 => end.form(now),
            8 => {
                if let Some(whole) = end.whole.pop_front() {
                    let good = reader.u8().ok()? != 0;
                    end.link.judge(&whole, good);
                    let pages = &whole.part.pages;
                    end.custody += if good { pages.end - pages.start } else { 0 };
                }
            }
            9 => {
                let pages = u64::from(reader.u8().ok()?).min(end.custody);
                end.custody -= pages;
                end.link.free(pages);
            }
            10 => end.deliver_all(now),
            11 => end.deliver_one(now, usize::from(reader.u8().ok()?)),
            12 => {
                end.datagrams.pop();
            }
            13 => self.resume(),
            14 => {
                let heard = reader.u64().ok()?;
                end.link.resume(now, heard).ok();
            }
            15 => {
                let message = read(reader)?;
                end.hand(now, message);
            }
            _ => return None,
        }
        Some(())
    }

    /// Simulates a lost connection: drops all messages in flight, and resumes both ends.
    fn resume(&mut self) {
        let heard = [0, 1].map(|side| self.ends[side].link.heard());
        for (side, end) in self.ends.iter_mut().enumerate() {
            end.messages.clear();
            end.datagrams.clear();
            // an end that claims to have received unsent messages is rejected
            end.link.resume(self.now, heard[1 - side]).ok();
        }
    }

    /// Polls both ends, as the contract of `Endpoint` requires after each call.
    fn drain(&mut self) {
        for side in [0, 1] {
            let end = &mut self.ends[side];
            end.link.handle_timeout(self.now);
            let mut sent = Vec::new();
            while let Some(transmit) = end.link.poll_transmit(self.now) {
                if transmit.via == Via::Datagram {
                    let turn = transmit.head.as_slice()[..8].to_vec();
                    assert!(end.turns.insert(turn), "a packet number was used twice");
                }
                sent.push(transmit);
            }
            while let Some(event) = end.link.poll_event() {
                end.hear(event);
            }
            let _ = end.link.poll_timeout();
            assert!(end.link.receiver().room() <= u64::from(end.link.config().pages_max));
            let other = &mut self.ends[1 - side];
            for transmit in sent {
                if transmit.via != Via::Datagram {
                    other.messages.push_back(transmit);
                } else if other.datagrams.len() < KEPT_MAX {
                    other.datagrams.push(transmit);
                }
            }
        }
    }
}

/// Makes a call of an owner about one of its sessions.
fn about(end: &mut End, what: u8, now: Instant, reader: &mut Reader<'_>) -> Option<()> {
    let session = SessionId([reader.u8().ok()? % SESSIONS; 16]);
    let number = u32::from(reader.u16().ok()?);
    let state = end.sessions.get(&session).copied();
    match (what, state) {
        (2, None) => {
            end.link.open(session, b"there");
            end.sessions.insert(session, false);
        }
        (2, Some(_)) => {
            let accepted = number % 8 != 0;
            end.link.answer(session, accepted, b"here");
            if !accepted {
                end.sessions.remove(&session);
            }
        }
        (3, _) => {
            end.link.reset(session, b"why");
            end.sessions.remove(&session);
        }
        (4, Some(false)) => {
            let len = number % end.link.config().page_len() + 1;
            end.link.supply(now, session, len);
        }
        (5, Some(_)) => {
            end.link.finish(session, 7);
            end.sessions.insert(session, true);
        }
        (6, _) => end.link.allow(session, u64::from(number) << 4),
        _ => {}
    }
    Some(())
}

/// Reads a message with a header of up to 255 octets.
fn read<'a>(reader: &mut Reader<'a>) -> Option<Message<'a>> {
    let (kind, len) = (reader.u8().ok()?, u32::from(reader.u16().ok()?));
    let octets = usize::from(reader.u8().ok()?);
    let (via, len) = match kind % 3 {
        0 => (Via::Datagram, len),
        1 => (Via::Stream(STREAM), 0),
        _ => (Via::Stream(STREAM + 1), len),
    };
    let head = reader.take(octets).ok()?;
    Some(Message { via, head, len })
}

const STREAM: u16 = 1;
/// Most sessions at a time.
const SESSIONS: u8 = 4;
/// Most datagrams in flight.
const KEPT_MAX: usize = 4096;
