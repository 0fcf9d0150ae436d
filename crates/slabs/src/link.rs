//! Both directions and all sessions between two gateways: [`Link`] is the state machine, [`Event`] its events.
//!
//! It joins a [`Sender`], a [`Receiver`], a [`Flow`] for each session, and a [`MessageQueue`] that survives the loss of
//! the connection. The owner provides the bytes, checks them, and connects again after [`Event::Silent`] and
//! [`Event::Exhausted`]. After [`Event::Failed`] the link stays unusable.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use lighthaul_base::{
    Body, Deadline, Endpoint, Head, Instant, Message, Rate, Span, Transmit, Trc, Via,
};

use super::flow::Flow;
use super::form::{Plan, SlabFormer, Slot};
use super::message_queue::MessageQueue;
use super::receiver::{CompleteRecord, Receiver};
use super::sender::{RecordPages, Sender};
use super::wire::{Control, Record, SessionId};
use super::{Config, PeerMisbehaved};

/// One side of a link.
#[derive(Debug)]
// fields: state of one machine, which each event reads and changes
pub struct Link {
    config: Config,
    sender: Sender,
    receiver: Receiver,
    messages: MessageQueue,
    flows: BTreeMap<SessionId, Flow>,
    former: SlabFormer,
    /// Bytes by which the windows granted to the peer's sessions exceed their initial windows, less the bytes
    /// received.
    promised: u64,
    /// Time of the latest call.
    seen: Instant,
    /// Time of the latest message from the peer.
    received_at: Instant,
    reported: Reported,
    failed: bool,
    ignored: u64,
    events: VecDeque<Event>,
}

/// Conditions that were reported to the owner.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
struct Reported {
    /// A slab can be formed.
    due: bool,
    /// The peer is silent.
    silent: bool,
    /// No datagram reaches the peer.
    dark: bool,
    /// A new connection is needed.
    spent: bool,
}

/// Event for the owner of a [`Link`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer opens a session to the target that the owner encoded.
    Opened(SessionId, Vec<u8>),
    /// The peer answers a session of this side: true if it is accepted, and details.
    Answered(SessionId, bool, Vec<u8>),
    /// The peer has reset a session, for the reason that the owner encoded.
    Reset(SessionId, Vec<u8>),
    /// All bytes of a record have arrived. The owner must check them and call [`Link::judge`].
    Complete(CompleteRecord),
    /// The peer has taken custody of the records, and their pages are free.
    Kept(Vec<RecordPages>),
    /// The peer has enlarged the window of a session.
    Widened(SessionId),
    /// A slab can be formed.
    SlabReady,
    /// No datagram has reached the peer for a while, although its stream works. Datagrams should use the stream, too.
    DatagramsLost,
    /// The peer has been silent for [`Config::patience`].
    Silent,
    /// The connection has no turns left. The link must continue on a new one.
    Exhausted,
    /// The peer violated the protocol. The link neither sends nor receives anything more.
    Failed(PeerMisbehaved),
}

impl Link {
    /// Returns a link without sessions. Without a vector the channel is not paced. Panics unless `config` passes
    /// [`Config::check`].
    pub fn new(now: Instant, config: Config, trc: Option<Trc>) -> Self {
        assert_eq!(config.check(), Ok(()), "the config must pass check()");
        Self {
            config,
            sender: Sender::new(now, config, trc),
            receiver: Receiver::new(config),
            messages: MessageQueue::new(now),
            flows: BTreeMap::new(),
            former: SlabFormer::default(),
            promised: 0,
            seen: now,
            received_at: now,
            reported: Reported::default(),
            failed: false,
            ignored: 0,
            events: VecDeque::new(),
        }
    }

    /// Returns the parameters of the link.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the sending side.
    pub const fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Returns the receiving side.
    pub const fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// Returns the number of open sessions.
    pub fn sessions(&self) -> usize {
        self.flows.len()
    }

    /// Returns the data of a session that waits or is in flight.
    pub fn flow(&self, session: SessionId) -> Option<&Flow> {
        self.flows.get(&session)
    }

    /// Returns the number of messages that were ignored as invalid but harmless.
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Returns the number of messages received, which the peer needs for [`Link::resume`].
    pub const fn heard(&self) -> u64 {
        self.messages.received()
    }

    /// Continues on another connection, with a peer that has received `heard` messages.
    pub fn resume(&mut self, now: Instant, heard: u64) -> Result<(), PeerMisbehaved> {
        self.seen = now;
        self.received_at = now;
        self.reported.silent = false;
        self.reported.dark = false;
        self.reported.spent = false;
        self.sender.reconnect();
        self.messages.resume(now, heard)
    }

    /// Changes the vector from `now` on.
    pub fn follow(&mut self, now: Instant, trc: Option<Trc>) {
        self.sender.follow(now, trc);
    }

    /// Opens a session. Its bytes may follow at once. Returns false, and opens nothing, if an earlier session with this
    /// identifier has not ended on both sides.
    pub fn open(&mut self, session: SessionId, details: &[u8]) -> bool {
        let is_new = !self.flows.contains_key(&session);
        if is_new {
            self.enter(session);
            self.messages.push(&Control::Open { session, details });
        }
        is_new
    }

    /// Answers a session that the peer opened. A refusal ends it.
    pub fn answer(&mut self, session: SessionId, accepted: bool, details: &[u8]) {
        self.messages.push(&Control::Answer {
            session,
            accepted,
            details,
        });
        if !accepted {
            self.forget(session);
        }
    }

    /// Ends a session at once.
    pub fn reset(&mut self, session: SessionId, details: &[u8]) {
        if self.flows.contains_key(&session) {
            self.messages.push(&Control::Reset { session, details });
            self.forget(session);
        }
    }

    /// Queues a page of `len` bytes of a session.
    pub fn supply(&mut self, now: Instant, session: SessionId, len: u32) {
        assert!(
            len <= self.config.page_len(),
            "a page must not exceed page_len()"
        );
        if let Some(flow) = self.flows.get_mut(&session) {
            flow.supply(now, len);
            self.former.update(session, Some(flow));
        }
    }

    /// Ends the outgoing direction of a session. `digest` covers all of its bytes.
    pub fn finish(&mut self, session: SessionId, digest: u64) {
        if let Some(flow) = self.flows.get_mut(&session) {
            flow.finish(digest);
            self.former.update(session, Some(flow));
        }
    }

    /// Grants the peer the bytes of a session below offset `limit`.
    pub fn allow(&mut self, session: SessionId, limit: u64) {
        let window = u64::from(self.config.window);
        let Some(flow) = self.flows.get_mut(&session) else {
            return;
        };
        self.promised -= flow.promised(window);
        if flow.allow(limit) {
            self.messages.push(&Control::Window { session, limit });
        }
        self.promised += flow.promised(window);
    }

    /// Returns the bytes of local memory that are not promised to any session.
    pub fn unpromised(&self) -> u64 {
        let room = self.receiver.room() * u64::from(self.config.page_len());
        room.saturating_sub(self.promised)
    }

    /// Returns the number of pages that wait for a slab and fit in the windows of their sessions.
    pub const fn waiting_pages(&self) -> u64 {
        self.former.pages()
    }

    /// Returns the number of sessions with pages or an end that can be sent.
    pub fn ready_sessions(&self) -> usize {
        self.former.sessions()
    }

    /// Forms a slab, if one is due. Its pages start at [`Sender::next_page`]. The owner must pass it to
    /// [`Link::launch`].
    pub fn form(&mut self, now: Instant) -> Option<Plan> {
        self.seen = now;
        self.reported.due = false;
        let slot = self.slot();
        self.former.form(&mut self.flows, &self.config, slot)
    }

    /// Sends a slab that was formed, with the CRC-32C of each of its runs.
    pub fn launch(&mut self, plan: Plan, crcs: &[u32]) {
        assert_eq!(plan.runs.len(), crcs.len(), "one CRC per run is required");
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
            parts.push(RecordPages {
                record,
                pages: page..till,
            });
            page = till;
            lens.extend(run.lens);
        }
        let records = parts.iter().map(|part| part.record).collect();
        self.messages.push(&Control::Slab {
            slab,
            page: first,
            records,
        });
        self.sender.launch(parts, &lens, plan.urgent);
    }

    /// Takes the owner's verdict on a complete record: custody (`good`), or a CRC mismatch.
    pub fn judge(&mut self, whole: &CompleteRecord, good: bool) {
        let is_last = self.receiver.judge(whole.slab, whole.nth, good);
        let slab = whole.slab;
        if !good {
            let bad = [whole.nth].into();
            self.messages.push(&Control::Verdict { slab, bad });
            return;
        }
        if is_last {
            let bad = Vec::new();
            self.messages.push(&Control::Verdict { slab, bad });
        }
        let session = whole.part.record.session;
        if let Some(flow) = self.flows.get_mut(&session) {
            flow.take_custody(whole.slab, &whole.part.record);
            self.close(session);
        }
    }

    /// Releases the memory of `pages` pages whose bytes were delivered.
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
        self.former.update(session, None);
    }

    fn close(&mut self, session: SessionId) {
        if self.flows.get(&session).is_some_and(Flow::is_over) {
            self.forget(session);
        }
    }

    fn handle_control(&mut self, now: Instant, octets: &[u8]) -> Result<(), PeerMisbehaved> {
        let message = Control::decode(octets).map_err(|_| PeerMisbehaved::Malformed)?;
        if let Control::Ack { count } = message {
            return self.messages.handle_ack(count);
        }
        self.messages.count_received(now);
        match message {
            Control::Open { session, details } => {
                if self.flows.contains_key(&session) {
                    return Err(PeerMisbehaved::Overrun);
                }
                self.enter(session);
                self.events
                    .push_back(Event::Opened(session, details.into()));
            }
            Control::Answer {
                session,
                accepted,
                details,
            } => self.handle_answer(session, accepted, details),
            Control::Reset { session, details } => {
                if self.flows.contains_key(&session) {
                    self.forget(session);
                    self.events.push_back(Event::Reset(session, details.into()));
                }
            }
            Control::Slab {
                slab,
                page,
                records,
            } => self.handle_slab(slab, page, records)?,
            Control::Verdict { slab, bad } => self.handle_verdict(slab, &bad)?,
            Control::Report { below, lost } => {
                self.sender.handle_report(now, below, &lost)?;
                self.check_dark(now);
            }
            Control::Question { turns } => self.receiver.handle_question(now, turns),
            Control::Credit { pages } => self.sender.grant(pages),
            Control::Window { session, limit } => {
                if let Some(flow) = self.flows.get_mut(&session) {
                    flow.widen(limit);
                    self.former.update(session, Some(flow));
                    self.events.push_back(Event::Widened(session));
                }
            }
            Control::Ack { .. } => {}
        }
        Ok(())
    }

    fn check_dark(&mut self, now: Instant) {
        if self.sender.is_dark(now) && !self.reported.dark {
            self.reported.dark = true;
            self.events.push_back(Event::DatagramsLost);
        }
    }

    fn handle_answer(&mut self, session: SessionId, accepted: bool, details: &[u8]) {
        if !self.flows.contains_key(&session) {
            return;
        }
        if !accepted {
            self.forget(session);
        }
        let details = details.into();
        self.events
            .push_back(Event::Answered(session, accepted, details));
    }

    fn handle_slab(
        &mut self,
        slab: u64,
        page: u64,
        records: Vec<Record>,
    ) -> Result<(), PeerMisbehaved> {
        let window = u64::from(self.config.window);
        for record in &records {
            // bytes may still arrive for a session that has ended here
            if let Some(flow) = self.flows.get_mut(&record.session) {
                self.promised -= flow.promised(window);
                let announced = flow.announce(record);
                self.promised += flow.promised(window);
                announced?;
            }
        }
        let events = &mut self.events;
        let mut whole = |whole| events.push_back(Event::Complete(whole));
        self.receiver.handle_slab(slab, page, records, &mut whole)
    }

    fn handle_verdict(&mut self, slab: u64, bad: &[u32]) -> Result<(), PeerMisbehaved> {
        let parts = self.sender.handle_verdict(slab, bad)?;
        for RecordPages { record, .. } in &parts {
            if let Some(flow) = self.flows.get_mut(&record.session) {
                flow.kept(slab, record);
                self.former.update(record.session, Some(flow));
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
        let (head, octets) = octets.split_at(octets.len().min(Head::MAX));
        Transmit {
            via: Via::Stream(self.config.stream),
            head: Head::new(head),
            body: if octets.is_empty() {
                Body::None
            } else {
                Body::Octets(octets.to_vec())
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
        self.received_at = now;
        self.reported.silent = false;
        match message.via {
            Via::Datagram => {
                let events = &mut self.events;
                let mut whole = |whole| events.push_back(Event::Complete(whole));
                let (head, len) = (message.head, message.len);
                return self.receiver.handle_datagram(now, head, len, &mut whole);
            }
            Via::Stream(stream) if stream == self.config.stream && message.len == 0 => {
                if let Err(why) = self.handle_control(now, message.head) {
                    self.fail(why);
                }
            }
            Via::Stream(_) => self.ignored += 1,
        }
        None
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.seen = now;
        if now >= self.received_at + self.config.patience && !self.reported.silent {
            self.reported.silent = true;
            self.events.push_back(Event::Silent);
        }
        if self.messages.is_full() {
            self.fail(PeerMisbehaved::Deaf);
        }
    }

    /// Changes the channel's rate. A driver passes [`Rate::UNLIMITED`] when it carries datagrams on the stream.
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
            self.messages.push(&Control::Report { below, lost });
        }
        if let Some(pages) = self.receiver.poll_credit() {
            self.messages.push(&Control::Credit { pages });
        }
        if let Some(octets) = self.messages.poll(now) {
            return Some(self.on_stream(&octets));
        }
        if let Some(datagram) = self.sender.poll_datagram(now) {
            return Some(datagram);
        }
        if self.sender.is_spent() && !self.reported.spent {
            self.reported.spent = true;
            self.events.push_back(Event::Exhausted);
        }
        let turns = self.sender.poll_question()?;
        self.messages.push(&Control::Question { turns });
        let octets = self.messages.poll(now)?;
        Some(self.on_stream(&octets))
    }

    fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        let is_due = || self.former.is_due(&self.flows, &self.config, self.slot());
        if self.failed || self.reported.due || !is_due() {
            return None;
        }
        self.reported.due = true;
        Some(Event::SlabReady)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        if self.failed {
            return None;
        }
        let silent = if self.reported.silent {
            Instant::NEVER
        } else {
            self.received_at + self.config.patience
        };
        let waits = self.sender.room() > 0 && self.sender.is_hungry() && !self.reported.due;
        let due = if self.former.is_empty() || !waits {
            Instant::NEVER
        } else {
            self.former.ripe_at(&self.flows, &self.config)
        };
        let deadlines = [
            (self.sender.due().unwrap_or(Instant::NEVER), "pace"),
            (self.receiver.due().unwrap_or(Instant::NEVER), "report"),
            (self.messages.due(), "message"),
            (due, "slab"),
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
    fn identifier_of_an_open_session_cannot_be_used_again() {
        let now = Instant::ZERO;
        let mut link = Link::new(now, EXAMPLE, None);
        let session = SessionId([1; 16]);
        assert!(link.open(session, b"first"));
        link.supply(now, session, 5);
        assert!(!link.open(session, b"second"));
        assert_eq!(link.flow(session).map(Flow::queued_bytes), Some(5));
        let opened = core::iter::from_fn(|| link.poll_transmit(now))
            .filter(|sent| matches!(Control::decode(&sent.octets()), Ok(Control::Open { .. })));
        assert_eq!(opened.count(), 1);
        link.reset(session, b"");
        assert!(link.open(session, b"third"));
    }

    #[test]
    fn exhausted_connection_is_reported_once() {
        let now = Instant::ZERO;
        let mut link = Link::new(now, EXAMPLE, None);
        let spent = |link: &mut Link| {
            while link.poll_transmit(now).is_some() {}
            core::iter::from_fn(|| link.poll_event())
                .filter(|event| *event == Event::Exhausted)
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
