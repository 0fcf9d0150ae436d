//! The side that says what is missing.

use core::time::Duration;

use lighthaul_base::{Deadline, Endpoint, Instant, Load, Message, Span, Transmit, Via};

use super::wire::{self, Control, Packet, RANGES_MAX, Sent};
use super::{Config, PeerMisbehaved};
use crate::parts::{Events, Hold, LossList, Tally};

/// Says where each new packet belongs, reports losses soon and arrivals from time to time, and answers questions.
#[derive(Debug)]
pub struct Receiver {
    config: Config,
    tally: Tally,
    /// All below came; more may have come since it was worked out.
    below: u64,
    /// What was sent, as far as what came tells.
    sent: Sent,
    /// What is missing of that, and was not reported.
    lost: LossList,
    lost_turns: LossList,
    /// When it should be, unless it comes late after all.
    nak_at: Option<Instant>,
    /// When what came should be reported.
    ack_at: Option<Instant>,
    /// What was last reported of that.
    told: Sent,
    question: Option<Question>,
    answered: u32,
    hold: Hold,
    datagrams: u64,
    duplicates: u64,
    ignored: u64,
    over: bool,
    events: Events<ReceiverEvent, EVENTS_MAX>,
}

/// What the owner of a [`Receiver`] gets to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// A question was answered.
    Answered {
        /// Packets received in all.
        received: u64,
        /// Packets still missing, sent or not.
        missing: u64,
    },
    /// Everything came and the sender was told.
    Complete,
    /// The sender said what cannot be; nothing more is answered.
    Failed(PeerMisbehaved),
}

/// A question that waits for datagrams on their way.
#[derive(Clone, Copy, Debug)]
struct Question {
    sent: Sent,
    /// When it is answered, if nothing comes, and when at the latest.
    at: Instant,
    latest: Instant,
}

impl Receiver {
    /// A receiver of an object of which nothing is there yet; the config must pass [`Config::check`].
    pub fn new(now: Instant, config: Config, _seed: u64) -> Self {
        assert_eq!(
            config.check(),
            Ok(()),
            "a config is checked before it is used"
        );
        let packets = config.packets();
        Self {
            config,
            tally: Tally::new(packets),
            below: 0,
            sent: Sent::default(),
            lost: LossList::new(config.losses_max as usize),
            lost_turns: LossList::new(config.losses_max as usize),
            nak_at: None,
            // an object of no bytes is there at once
            ack_at: (packets == 0).then_some(now),
            told: Sent::default(),
            question: None,
            answered: 0,
            hold: Hold::default(),
            datagrams: 0,
            duplicates: 0,
            ignored: 0,
            over: false,
            events: Events::default(),
        }
    }

    /// Packets received, each counted once.
    pub const fn received(&self) -> u64 {
        self.tally.count()
    }

    /// Packets of the object.
    pub const fn total(&self) -> u64 {
        self.tally.total()
    }

    /// Questions answered.
    pub const fn questions(&self) -> u32 {
        self.answered
    }

    /// Datagrams that came, whatever they were.
    pub const fn datagrams(&self) -> u64 {
        self.datagrams
    }

    /// Packets that came again.
    pub const fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Messages that made no sense.
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Whether the sender was asked for a pause.
    pub const fn is_holding(&self) -> bool {
        self.hold.is_on()
    }

    fn handle_datagram(&mut self, now: Instant, head: &[u8], len: u32) -> Option<Span> {
        self.datagrams += 1;
        let packet = Packet::decode(head).ok();
        let Some((packet, span)) = packet.and_then(|packet| {
            let span = self.span(packet.number, len)?;
            Some((packet, span))
        }) else {
            self.ignored += 1;
            return None;
        };
        self.follow(now, packet);
        if let Some(question) = &mut self.question {
            question.at = (now + self.config.settle).min(question.latest);
        }
        self.place(now, packet.number, span)
    }

    /// Where a packet of `len` bytes belongs, if there can be such a one now.
    fn span(&mut self, number: u64, len: u32) -> Option<Span> {
        let window = u64::from(self.config.window);
        if number >= self.below + window {
            self.catch_up();
        }
        let span = self.config.cut().place(number, len);
        span.filter(|_| number < self.below + window)
    }

    /// Notes what is missing by what has come: a circuit keeps order.
    fn follow(&mut self, now: Instant, packet: Packet) {
        let (number, turn) = (packet.number, packet.turn);
        if turn > self.sent.turns {
            // what the lists have no room for, a question finds
            self.lost_turns.insert(self.sent.turns..turn);
            self.suspect(now);
            self.sent.turns = turn;
        }
        if packet.again {
            if turn == self.sent.turns {
                self.sent.turns += 1;
            } else if !self.lost_turns.is_empty() {
                self.lost_turns.remove(turn);
            }
        } else if number >= self.sent.packets {
            if number > self.sent.packets {
                self.lost.insert(self.sent.packets..number);
                self.suspect(now);
            }
            self.sent.packets = number + 1;
        }
        if !self.lost.is_empty() {
            self.lost.remove(number);
        }
    }

    fn suspect(&mut self, now: Instant) {
        self.nak_at.get_or_insert(now + self.config.settle);
    }

    /// Marks a packet; answers where its body belongs if it is new.
    fn place(&mut self, now: Instant, number: u64, span: Span) -> Option<Span> {
        if !self.tally.mark(number) {
            self.duplicates += 1;
            return None;
        }
        if self.ack_at.is_none() {
            self.ack_at = Some(now + self.config.ack_every);
        }
        if self.tally.is_full() {
            self.ack_at = Some(now);
        }
        Some(span)
    }

    fn handle_control(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        match Control::decode(message.head) {
            Ok(Control::Question(sent)) if message.len == 0 => self.handle_question(now, sent),
            Ok(Control::Piece { number }) => {
                if let Some(span) = self.span(number, message.len) {
                    if !self.lost.is_empty() {
                        self.lost.remove(number);
                    }
                    return self.place(now, number, span);
                }
                self.ignored += 1;
            }
            Ok(Control::Question(_) | Control::Report(_) | Control::Hold { .. }) | Err(_) => {
                self.ignored += 1;
            }
        }
        None
    }

    fn handle_question(&mut self, now: Instant, sent: Sent) {
        if self.over {
            return;
        }
        if sent.packets > self.tally.total() {
            self.over = true;
            let why = PeerMisbehaved::Beyond(sent.packets);
            return self.events.tell(ReceiverEvent::Failed(why));
        }
        if self.question.is_some() {
            self.ignored += 1;
            return;
        }
        self.catch_up();
        let settle = if self.below >= sent.packets {
            Duration::ZERO
        } else {
            self.config.settle
        };
        self.question = Some(Question {
            sent,
            at: now + settle,
            latest: now + settle * SETTLES_MAX,
        });
    }

    /// Works out what all has come.
    fn catch_up(&mut self) {
        let missing = self.tally.next_missing(self.below);
        self.below = missing.unwrap_or_else(|| self.tally.total());
    }

    /// What is to be said now, if anything.
    fn report(&mut self, now: Instant) -> Option<Transmit> {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let answers = is_due(self.question.map(|question| question.at));
        let naks = is_due(self.nak_at);
        let acks = is_due(self.ack_at);
        if self.over || !(answers || naks || acks) {
            return None;
        }
        self.catch_up();
        if acks {
            self.ack_at = None;
        }
        if answers {
            return self.answer();
        }
        let naks = naks && !(self.lost.is_empty() && self.lost_turns.is_empty());
        self.nak_at = self.nak_at.filter(|at| *at > now);
        let told = self.whole();
        if !naks && told == self.told && !self.tally.is_full() {
            return None;
        }
        Some(self.say(now, naks))
    }

    /// What came of what was sent: packets in whole blocks, and resends.
    fn whole(&self) -> Sent {
        let block = u64::from(self.config.block);
        Sent {
            packets: if self.tally.is_full() {
                self.below
            } else {
                self.below / block * block
            },
            turns: self.lost_turns.first().unwrap_or(self.sent.turns),
        }
    }

    /// Reports all that is missing of what was asked about.
    fn answer(&mut self) -> Option<Transmit> {
        let Sent { packets, turns } = self.question.take()?.sent;
        self.answered = self.answered.wrapping_add(1);
        self.sent.packets = self.sent.packets.max(packets);
        self.sent.turns = self.sent.turns.max(turns);
        self.lost.remove_below(packets);
        self.lost_turns.remove_below(turns);
        let told = self.whole();
        self.told = told;
        let mut from = self.below;
        let missing = core::iter::from_fn(|| {
            let run = self.tally.missing_run(from, u64::MAX)?;
            from = run.end;
            (run.start < packets).then(|| run.start..run.end.min(packets))
        });
        let said = [self.answered.into(), told.packets, told.turns];
        let report = wire::report(self.config.stream, said, missing, core::iter::empty());
        self.events.tell(ReceiverEvent::Answered {
            received: self.tally.count(),
            missing: self.tally.missing(),
        });
        self.conclude();
        Some(report)
    }

    /// Reports what came, and on demand what has been found to be missing.
    fn say(&mut self, now: Instant, naks: bool) -> Transmit {
        let ranges_max = if naks { RANGES_MAX } else { 0 };
        let (lost, turns) = (&self.lost, &self.lost_turns);
        let lost_till = lost
            .ranges()
            .take(ranges_max)
            .last()
            .map_or(0, |range| range.end);
        let turns_till = turns
            .ranges()
            .take(ranges_max)
            .last()
            .map_or(0, |range| range.end);
        let whole = self.whole();
        let told = Sent {
            turns: turns
                .next(turns_till)
                .map_or(self.sent.turns, |range| range.start),
            ..whole
        };
        let said = [self.answered.into(), told.packets, told.turns];
        let report = wire::report(
            self.config.stream,
            said,
            lost.ranges().take(ranges_max),
            turns.ranges().take(ranges_max),
        );
        self.told = told;
        self.lost.remove_below(lost_till);
        self.lost_turns.remove_below(turns_till);
        if naks && !(self.lost.is_empty() && self.lost_turns.is_empty()) {
            self.nak_at = Some(now);
        }
        self.conclude();
        report
    }

    fn conclude(&mut self) {
        if self.tally.is_full() {
            self.over = true;
            self.events.tell(ReceiverEvent::Complete);
        }
    }

    fn hold(&mut self) -> Option<Transmit> {
        let on = self.hold.poll().filter(|_| !self.over)?;
        Some(wire::hold(self.config.stream, on))
    }
}

impl Endpoint for Receiver {
    type Event = ReceiverEvent;

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        match message.via {
            Via::Datagram => self.handle_datagram(now, message.head, message.len),
            Via::Stream(stream) if stream == self.config.stream => {
                self.handle_control(now, message)
            }
            Via::Stream(_) => {
                self.ignored += 1;
                None
            }
        }
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn handle_load(&mut self, _now: Instant, load: Load) {
        self.hold.handle_load(&load);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.hold().or_else(|| self.report(now))
    }

    fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.events.poll()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        if self.over {
            return None;
        }
        let deadline = |at: Option<Instant>, why| at.map(|at| Deadline { at, why });
        [
            deadline(self.question.map(|question| question.at), "settle"),
            deadline(self.nak_at, "losses"),
            deadline(self.ack_at, "arrivals"),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn upcoming(&self, offset: u64, len: u32) -> Option<Span> {
        let run = |from, packets_max| self.tally.missing_run(from, packets_max);
        self.config.cut().upcoming(offset, len, run)
    }
}

/// A question waits at most this many times the settle time.
const SETTLES_MAX: u32 = 4;
/// No call tells more: an answer and the end.
const EVENTS_MAX: usize = 4;
