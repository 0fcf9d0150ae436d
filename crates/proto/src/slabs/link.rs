//! Both directions, and all sessions, between two gateways: what the world runs.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use lighthaul_base::{
    Body, Deadline, Endpoint, Head, Instant, Message, Rate, Span, Transmit, Trc, Via,
};

use super::flow::Flow;
use super::form::{Former, Plan, Slot};
use super::mail::Mail;
use super::receiver::{Receiver, Whole};
use super::sender::{Part, Sender};
use super::wire::{Letter, Record, SessionId};
use super::{Config, PeerMisbehaved};

/// One side of a link.
#[derive(Debug)]
pub struct Link {
    config: Config,
    sender: Sender,
    receiver: Receiver,
    mail: Mail,
    flows: BTreeMap<SessionId, Flow>,
    former: Former,
    /// Bytes that sessions of the peer were promised a place for, besides the first window of each, and that have not come.
    promised: u64,
    /// The last moment time was told.
    seen: Instant,
    /// When the peer last said anything.
    heard_at: Instant,
    told: Told,
    failed: bool,
    ignored: u64,
    events: VecDeque<Event>,
}

/// What the owner knows already.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is told by itself")]
struct Told {
    /// That a slab can be formed.
    ripe: bool,
    /// That the peer is silent.
    silent: bool,
    /// That no datagram reaches it.
    dark: bool,
    /// That another connection is needed.
    spent: bool,
}

/// What the owner of a [`Link`] gets to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer begins a session, to where these words say.
    Opened(SessionId, Vec<u8>),
    /// The peer has answered one that we began: whether it goes on, and words.
    Answered(SessionId, bool, Vec<u8>),
    /// The peer has ended a session at once, for a reason.
    Reset(SessionId, Vec<u8>),
    /// All bytes of a record came; it waits for a verdict.
    Whole(Whole),
    /// Records that are not ours any more, where they lay.
    Kept(Vec<Part>),
    /// The peer has a place for more of a session.
    Widened(SessionId),
    /// A slab can be formed.
    Ripe,
    /// No datagram has reached the peer for a while, though its stream does: they had better go there too.
    Dark,
    /// Nothing has been heard of the peer for too long.
    Silent,
    /// As many datagrams have left as one connection can tell apart: the link goes on over another.
    Spent,
    /// The peer said what cannot be; nothing more is heard or said.
    Failed(PeerMisbehaved),
}

impl Link {
    /// A link of which the peer knows nothing yet; the config must pass [`Config::check`]. Without a vector the channel takes
    /// whatever it is given.
    pub fn new(now: Instant, config: Config, trc: Option<Trc>) -> Self {
        assert_eq!(
            config.check(),
            Ok(()),
            "a config is checked before it is used"
        );
        Self {
            config,
            sender: Sender::new(now, config, trc),
            receiver: Receiver::new(config),
            mail: Mail::new(now),
            flows: BTreeMap::new(),
            former: Former::default(),
            promised: 0,
            seen: now,
            heard_at: now,
            told: Told::default(),
            failed: false,
            ignored: 0,
            events: VecDeque::new(),
        }
    }

    /// What both sides agreed on.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Its sending side.
    pub const fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Its receiving side.
    pub const fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// Sessions that are not over.
    pub fn sessions(&self) -> usize {
        self.flows.len()
    }

    /// What one of them has waiting and under way.
    pub fn flow(&self, session: SessionId) -> Option<&Flow> {
        self.flows.get(&session)
    }

    /// Messages that made no sense, and did no harm.
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// How many messages of the peer were heard: what it needs to go on after [`Link::resume`].
    pub const fn heard(&self) -> u64 {
        self.mail.heard()
    }

    /// Goes on over another connection with a peer that has heard so many messages.
    pub fn resume(&mut self, now: Instant, heard: u64) -> Result<(), PeerMisbehaved> {
        self.seen = now;
        self.heard_at = now;
        self.told.silent = false;
        self.told.dark = false;
        self.told.spent = false;
        self.sender.reconnect();
        self.mail.resume(now, heard)
    }

    /// Keeps to another vector from now on.
    pub fn follow(&mut self, now: Instant, trc: Option<Trc>) {
        self.sender.follow(now, trc);
    }

    /// Begins a session; its bytes may follow at once.
    pub fn open(&mut self, session: SessionId, words: &[u8]) {
        self.enter(session);
        self.mail.push(&Letter::Open { session, words });
    }

    /// Answers one that the peer began; if it does not go on, it is over.
    pub fn answer(&mut self, session: SessionId, accepted: bool, words: &[u8]) {
        self.mail.push(&Letter::Answer {
            session,
            accepted,
            words,
        });
        if !accepted {
            self.forget(session);
        }
    }

    /// Ends a session at once.
    pub fn reset(&mut self, session: SessionId, words: &[u8]) {
        if self.flows.contains_key(&session) {
            self.mail.push(&Letter::Reset { session, words });
            self.forget(session);
        }
    }

    /// A page of `len` bytes of a session waits for a slab.
    pub fn supply(&mut self, now: Instant, session: SessionId, len: u32) {
        assert!(len <= self.config.page_len(), "a page is a page long");
        if let Some(flow) = self.flows.get_mut(&session) {
            flow.supply(now, len);
            self.former.look(session, Some(flow));
        }
    }

    /// Nothing more of a session will; all that it said has this digest.
    pub fn finish(&mut self, session: SessionId, digest: u64) {
        if let Some(flow) = self.flows.get_mut(&session) {
            flow.finish(digest);
            self.former.look(session, Some(flow));
        }
    }

    /// A session's bytes below `limit` have a place here.
    pub fn allow(&mut self, session: SessionId, limit: u64) {
        let window = u64::from(self.config.window);
        let Some(flow) = self.flows.get_mut(&session) else {
            return;
        };
        self.promised -= flow.promised(window);
        if flow.allow(limit) {
            self.mail.push(&Letter::Window { session, limit });
        }
        self.promised += flow.promised(window);
    }

    /// Bytes for which there is memory here that was promised to nobody.
    pub fn unpromised(&self) -> u64 {
        let room = self.receiver.room() * u64::from(self.config.page_len());
        room.saturating_sub(self.promised)
    }

    /// Pages that wait for a slab, and for which the peer has a place.
    pub const fn waiting_pages(&self) -> u64 {
        self.former.pages()
    }

    /// Forms a slab, if one is ripe: its pages get the numbers from [`Sender::next_page`] on, and it must be launched.
    pub fn form(&mut self, now: Instant) -> Option<Plan> {
        self.seen = now;
        self.told.ripe = false;
        let slot = self.slot();
        self.former.form(&mut self.flows, &self.config, slot)
    }

    /// Sends a slab that was formed, given the CRC-32C of each of its runs.
    pub fn launch(&mut self, plan: Plan, crcs: &[u32]) {
        assert_eq!(plan.runs.len(), crcs.len(), "each run has a CRC");
        let (slab, first) = (self.sender.next_slab(), self.sender.next_page());
        let (mut page, mut lens, mut parts) = (first, Vec::new(), Vec::new());
        for ((session, run), crc) in plan.runs.into_iter().zip(crcs) {
            let record = Record {
                session,
                offset: run.offset,
                len: run.len(),
                crc: *crc,
                end: run.end,
            };
            let till = page + run.lens.len() as u64;
            parts.push(Part {
                record,
                pages: page..till,
            });
            page = till;
            lens.extend(run.lens);
        }
        let records = parts.iter().map(|part| part.record).collect();
        self.mail.push(&Letter::Slab {
            slab,
            page: first,
            records,
        });
        self.sender.launch(parts, &lens, plan.urgent);
    }

    /// The verdict on a record that is whole: it is in our custody, or its bytes are not what they should be.
    pub fn judge(&mut self, whole: &Whole, good: bool) {
        let is_last = self.receiver.judge(whole.slab, whole.nth, good);
        let slab = whole.slab;
        if !good {
            let bad = [whole.nth].into();
            self.mail.push(&Letter::Verdict { slab, bad });
            return;
        }
        if is_last {
            let bad = Vec::new();
            self.mail.push(&Letter::Verdict { slab, bad });
        }
        let session = whole.part.record.session;
        if let Some(flow) = self.flows.get_mut(&session) {
            flow.take_custody(whole.slab, &whole.part.record);
            self.close(session);
        }
    }

    /// The bytes of so many pages have gone on.
    pub fn free(&mut self, pages: u64) {
        self.receiver.free(pages);
    }

    fn slot(&self) -> Slot {
        Slot {
            now: self.seen,
            room: self.sender.room(),
            is_hungry: self.sender.is_hungry(),
        }
    }

    fn enter(&mut self, session: SessionId) {
        let first_slabs = (self.sender.next_slab(), self.receiver.next_slab());
        let flow = Flow::new(&self.config, first_slabs);
        self.flows.insert(session, flow);
    }

    fn forget(&mut self, session: SessionId) {
        let flow = self.flows.remove(&session);
        let window = u64::from(self.config.window);
        self.promised -= flow.map_or(0, |flow| flow.promised(window));
        self.former.look(session, None);
    }

    fn close(&mut self, session: SessionId) {
        if self.flows.get(&session).is_some_and(Flow::is_over) {
            self.forget(session);
        }
    }

    fn handle_letter(&mut self, now: Instant, octets: &[u8]) -> Result<(), PeerMisbehaved> {
        let letter = Letter::decode(octets).map_err(|_| PeerMisbehaved::Malformed)?;
        if let Letter::Heard { count } = letter {
            return self.mail.settle(count);
        }
        self.mail.hear(now);
        match letter {
            Letter::Open { session, words } => {
                if self.flows.contains_key(&session) {
                    return Err(PeerMisbehaved::Overrun);
                }
                self.enter(session);
                self.events.push_back(Event::Opened(session, words.into()));
            }
            Letter::Answer {
                session,
                accepted,
                words,
            } => self.handle_answer(session, accepted, words),
            Letter::Reset { session, words } => {
                if self.flows.contains_key(&session) {
                    self.forget(session);
                    self.events.push_back(Event::Reset(session, words.into()));
                }
            }
            Letter::Slab {
                slab,
                page,
                records,
            } => self.handle_slab(slab, page, records)?,
            Letter::Verdict { slab, bad } => self.handle_verdict(slab, &bad)?,
            Letter::Report { below, lost } => {
                self.sender.handle_report(now, below, &lost)?;
                self.look_for_light(now);
            }
            Letter::Question { turns } => self.receiver.handle_question(now, turns),
            Letter::Credit { pages } => self.sender.grant(pages),
            Letter::Window { session, limit } => {
                if let Some(flow) = self.flows.get_mut(&session) {
                    flow.widen(limit);
                    self.former.look(session, Some(flow));
                    self.events.push_back(Event::Widened(session));
                }
            }
            Letter::Heard { .. } => {}
        }
        Ok(())
    }

    fn look_for_light(&mut self, now: Instant) {
        if self.sender.is_dark(now) && !self.told.dark {
            self.told.dark = true;
            self.events.push_back(Event::Dark);
        }
    }

    fn handle_answer(&mut self, session: SessionId, accepted: bool, words: &[u8]) {
        if !self.flows.contains_key(&session) {
            return;
        }
        if !accepted {
            self.forget(session);
        }
        let words = words.into();
        self.events
            .push_back(Event::Answered(session, accepted, words));
    }

    fn handle_slab(
        &mut self,
        slab: u64,
        page: u64,
        records: Vec<Record>,
    ) -> Result<(), PeerMisbehaved> {
        let window = u64::from(self.config.window);
        for record in &records {
            // of a session that is over here, bytes may still come
            if let Some(flow) = self.flows.get_mut(&record.session) {
                self.promised -= flow.promised(window);
                let announced = flow.announce(record);
                self.promised += flow.promised(window);
                announced?;
            }
        }
        let events = &mut self.events;
        let mut whole = |whole| events.push_back(Event::Whole(whole));
        self.receiver.handle_slab(slab, page, records, &mut whole)
    }

    fn handle_verdict(&mut self, slab: u64, bad: &[u32]) -> Result<(), PeerMisbehaved> {
        let parts = self.sender.handle_verdict(slab, bad)?;
        for Part { record, .. } in &parts {
            if let Some(flow) = self.flows.get_mut(&record.session) {
                flow.kept(slab, record);
                self.former.look(record.session, Some(flow));
                self.close(record.session);
            }
        }
        if !parts.is_empty() {
            self.events.push_back(Event::Kept(parts));
        }
        Ok(())
    }

    fn fail(&mut self, why: PeerMisbehaved) {
        if !self.failed {
            self.failed = true;
            self.events.push_back(Event::Failed(why));
        }
    }

    fn on_stream(&self, octets: &[u8]) -> Transmit {
        let (head, words) = octets.split_at(octets.len().min(Head::MAX));
        Transmit {
            via: Via::Stream(self.config.stream),
            head: Head::new(head),
            body: if words.is_empty() {
                Body::None
            } else {
                Body::Words(words.to_vec())
            },
        }
    }
}

impl Endpoint for Link {
    type Event = Event;

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        self.seen = now;
        if self.failed {
            return None;
        }
        self.heard_at = now;
        self.told.silent = false;
        match message.via {
            Via::Datagram => {
                let events = &mut self.events;
                let mut whole = |whole| events.push_back(Event::Whole(whole));
                let (head, len) = (message.head, message.len);
                return self.receiver.handle_datagram(now, head, len, &mut whole);
            }
            Via::Stream(stream) if stream == self.config.stream && message.len == 0 => {
                if let Err(why) = self.handle_letter(now, message.head) {
                    self.fail(why);
                }
            }
            Via::Stream(_) => self.ignored += 1,
        }
        None
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.seen = now;
        if now >= self.heard_at + self.config.patience && !self.told.silent {
            self.told.silent = true;
            self.events.push_back(Event::Silent);
        }
        if self.mail.is_full() {
            self.fail(PeerMisbehaved::Deaf);
        }
    }

    /// No limit is what a world says that carries datagrams on the stream.
    fn handle_rate(&mut self, now: Instant, rate: Rate) {
        let trc = (rate != Rate::UNLIMITED).then(|| Trc::steady(rate));
        self.sender.follow(now, trc);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.seen = now;
        if self.failed {
            return None;
        }
        if let Some((below, lost)) = self.receiver.poll_report(now) {
            self.mail.push(&Letter::Report { below, lost });
        }
        if let Some(pages) = self.receiver.poll_credit() {
            self.mail.push(&Letter::Credit { pages });
        }
        if let Some(octets) = self.mail.poll(now) {
            return Some(self.on_stream(&octets));
        }
        if let Some(datagram) = self.sender.poll_datagram(now) {
            return Some(datagram);
        }
        if self.sender.is_spent() && !self.told.spent {
            self.told.spent = true;
            self.events.push_back(Event::Spent);
        }
        let turns = self.sender.poll_question()?;
        self.mail.push(&Letter::Question { turns });
        let octets = self.mail.poll(now)?;
        Some(self.on_stream(&octets))
    }

    fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        let is_ripe = || self.former.is_ripe(&self.flows, &self.config, self.slot());
        if self.failed || self.told.ripe || !is_ripe() {
            return None;
        }
        self.told.ripe = true;
        Some(Event::Ripe)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        if self.failed {
            return None;
        }
        let silent = if self.told.silent {
            Instant::NEVER
        } else {
            self.heard_at + self.config.patience
        };
        let waits = self.sender.room() > 0 && self.sender.is_hungry() && !self.told.ripe;
        let ripe = if self.former.is_empty() || !waits {
            Instant::NEVER
        } else {
            self.former.ripens(&self.flows, &self.config)
        };
        let deadlines = [
            (self.sender.due().unwrap_or(Instant::NEVER), "pace"),
            (self.receiver.due().unwrap_or(Instant::NEVER), "report"),
            (self.mail.due(), "letter"),
            (ripe, "slab"),
            (silent, "silence"),
        ];
        let first = deadlines.into_iter().min_by_key(|(at, _)| *at);
        first.map(|(at, why)| Deadline { at, why })
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::EXAMPLE;
    use super::*;

    #[test]
    fn a_connection_without_turns_is_told_of_once() {
        let now = Instant::ZERO;
        let mut link = Link::new(now, EXAMPLE, None);
        let spent = |link: &mut Link| {
            while link.poll_transmit(now).is_some() {}
            core::iter::from_fn(|| link.poll_event())
                .filter(|event| *event == Event::Spent)
                .count()
        };
        link.resume(now, 0).unwrap();
        assert_eq!(spent(&mut link), 0);
        link.sender.turns_end = 0;
        assert_eq!((spent(&mut link), spent(&mut link)), (1, 0));
        link.resume(now, 0).unwrap();
        assert_eq!(spent(&mut link), 0);
        link.sender.turns_end = 0;
        assert_eq!(spent(&mut link), 1);
    }
}
