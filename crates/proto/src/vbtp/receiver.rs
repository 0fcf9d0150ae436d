//! Receiver of VBTP: [`Receiver`] is the state machine, [`ReceiverEvent`] its events.
//!
//! It derives losses from gaps in the packet numbers and in the turns of resends. It sends a report after a loss, for
//! each question of the sender, and from time to time as an ACK.

use core::time::Duration;

use lighthaul_base::{Deadline, Endpoint, Instant, Load, Message, Span, Transmit, Via};
use lighthaul_parts::{ArrivalCounts, Events, LossList, ReceiverPause, Tally};

use super::wire::{self, Control, Packet, RANGES_MAX, Sent};
use super::{Config, PeerMisbehaved};

/// State machine of the receiver. It places each new packet, reports losses soon and arrivals at intervals, and
/// answers questions.
#[derive(Debug)]
// fields: state of one machine, which each event reads and changes
pub struct Receiver {
    config: Config,
    tally: Tally,
    /// All packets below this number have arrived. More may have arrived since it was updated.
    below: u64,
    /// Number of packets and resends sent, as derived from the datagrams that arrived.
    sent: Sent,
    /// Missing packets that were not reported yet.
    lost: LossList,
    /// Turns of missing retransmissions that were not reported yet.
    lost_turns: LossList,
    /// Time at which `lost` and `lost_turns` are reported, unless the packets arrive before.
    nak_at: Option<Instant>,
    /// Time of the next ACK.
    ack_at: Option<Instant>,
    /// Contents of the latest ACK.
    reported: Sent,
    question: Option<Question>,
    answered: u32,
    hold: ReceiverPause,
    arrivals: ArrivalCounts,
    over: bool,
    events: Events<ReceiverEvent, EVENTS_MAX>,
}

/// Event for the owner of a [`Receiver`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// A question was answered.
    Answered {
        /// Packets received in total.
        received: u64,
        /// Packets still missing, whether they were sent or not.
        missing: u64,
    },
    /// All packets have arrived, and the final report was sent.
    Complete,
    /// The sender violated the protocol. No further message is answered.
    Failed(PeerMisbehaved),
}

/// Question whose answer waits for datagrams in flight.
#[derive(Clone, Copy, Debug)]
struct Question {
    sent: Sent,
    /// Time of the answer if no more datagrams arrive.
    at: Instant,
    /// Latest time of the answer.
    latest: Instant,
}

impl Receiver {
    /// Returns a receiver of an object without any data yet. Panics unless `config` passes [`Config::check`].
    pub fn new(now: Instant, config: Config, _seed: u64) -> Self {
        assert_eq!(config.check(), Ok(()), "the config must pass check()");
        let packets = config.framing.packets();
        Self {
            config,
            tally: Tally::new(packets),
            below: 0,
            sent: Sent::default(),
            lost: LossList::new(config.losses_max as usize),
            lost_turns: LossList::new(config.losses_max as usize),
            nak_at: None,
            // an empty object is complete at once
            ack_at: (packets == 0).then_some(now),
            reported: Sent::default(),
            question: None,
            answered: 0,
            hold: ReceiverPause::default(),
            arrivals: ArrivalCounts::default(),
            over: false,
            events: Events::default(),
        }
    }

    /// Returns the number of distinct packets received.
    pub const fn received(&self) -> u64 {
        self.tally.count()
    }

    /// Returns the number of packets of the object.
    pub const fn total(&self) -> u64 {
        self.tally.total()
    }

    /// Returns the number of questions answered.
    pub const fn questions(&self) -> u32 {
        self.answered
    }

    /// Returns the counts of the datagrams received.
    pub const fn arrivals(&self) -> ArrivalCounts {
        self.arrivals
    }

    /// True if the sender was asked to stop because this host cannot keep up.
    pub const fn is_holding(&self) -> bool {
        self.hold.is_on()
    }

    fn handle_datagram(&mut self, now: Instant, head: &[u8], len: u32) -> Option<Span> {
        self.arrivals.datagrams += 1;
        let packet = Packet::decode(head).ok();
        let Some((packet, span)) = packet.and_then(|packet| {
            let span = self.span(packet.number, len)?;
            Some((packet, span))
        }) else {
            self.arrivals.ignored += 1;
            return None;
        };
        self.detect_losses(now, packet);
        if let Some(question) = &mut self.question {
            question.at = (now + self.config.settle).min(question.latest);
        }
        self.place(now, packet.number, span)
    }

    /// Returns the span of a packet of `len` bytes, or `None` if it is invalid or outside the window.
    fn span(&mut self, number: u64, len: u32) -> Option<Span> {
        let window = u64::from(self.config.window);
        if number >= self.below + window {
            self.update_below();
        }
        let span = self.config.framing.layout().place(number, len);
        span.filter(|_| number < self.below + window)
    }

    /// Detects losses from a datagram: the circuit keeps order, so skipped numbers are lost.
    fn detect_losses(&mut self, now: Instant, packet: Packet) {
        let (number, turn) = (packet.number, packet.turn);
        if turn > self.sent.turns {
            // losses that do not fit in the lists are found by a question
            self.lost_turns.insert(self.sent.turns..turn);
            self.schedule_nak(now);
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
                self.schedule_nak(now);
            }
            self.sent.packets = number + 1;
        }
        if !self.lost.is_empty() {
            self.lost.remove(number);
        }
    }

    fn schedule_nak(&mut self, now: Instant) {
        self.nak_at.get_or_insert(now + self.config.settle);
    }

    /// Records a packet. Returns the span of its body if it is new.
    fn place(&mut self, now: Instant, number: u64, span: Span) -> Option<Span> {
        if !self.tally.mark(number) {
            self.arrivals.duplicates += 1;
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
                self.arrivals.ignored += 1;
            }
            Ok(Control::Question(_) | Control::Report(_) | Control::Hold { .. }) | Err(_) => {
                self.arrivals.ignored += 1;
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
            return self.events.push(ReceiverEvent::Failed(why));
        }
        if self.question.is_some() {
            self.arrivals.ignored += 1;
            return;
        }
        self.update_below();
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

    /// Updates the first missing packet.
    fn update_below(&mut self) {
        let missing = self.tally.next_missing(self.below);
        self.below = missing.unwrap_or_else(|| self.tally.total());
    }

    /// Returns the report that is due, if any.
    fn report(&mut self, now: Instant) -> Option<Transmit> {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let answers = is_due(self.question.map(|question| question.at));
        let naks = is_due(self.nak_at);
        let acks = is_due(self.ack_at);
        if self.over || !(answers || naks || acks) {
            return None;
        }
        self.update_below();
        if acks {
            self.ack_at = None;
        }
        if answers {
            return self.answer();
        }
        let naks = naks && !(self.lost.is_empty() && self.lost_turns.is_empty());
        self.nak_at = self.nak_at.filter(|at| *at > now);
        let reported = self.acked();
        if !naks && reported == self.reported && !self.tally.is_full() {
            return None;
        }
        Some(self.regular_report(now, naks))
    }

    /// Returns the acknowledged progress: packets in whole blocks, and resends.
    fn acked(&self) -> Sent {
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

    /// Returns the answer to a question: all missing packets in the range that the question names.
    fn answer(&mut self) -> Option<Transmit> {
        let Sent { packets, turns } = self.question.take()?.sent;
        self.answered = self.answered.wrapping_add(1);
        self.sent.packets = self.sent.packets.max(packets);
        self.sent.turns = self.sent.turns.max(turns);
        self.lost.remove_below(packets);
        self.lost_turns.remove_below(turns);
        let reported = self.acked();
        self.reported = reported;
        let mut from = self.below;
        let missing = core::iter::from_fn(|| {
            let run = self.tally.missing_run(from, u64::MAX)?;
            from = run.end;
            (run.start < packets).then(|| run.start..run.end.min(packets))
        });
        let counts = [self.answered.into(), reported.packets, reported.turns];
        let report = wire::report(self.config.stream, counts, missing, core::iter::empty());
        self.events.push(ReceiverEvent::Answered {
            received: self.tally.count(),
            missing: self.tally.missing(),
        });
        self.check_complete();
        Some(report)
    }

    /// Returns a report of arrivals and, with `naks`, of the losses found.
    fn regular_report(&mut self, now: Instant, naks: bool) -> Transmit {
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
        let acked = self.acked();
        let reported = Sent {
            turns: turns
                .next(turns_till)
                .map_or(self.sent.turns, |range| range.start),
            ..acked
        };
        let counts = [self.answered.into(), reported.packets, reported.turns];
        let report = wire::report(
            self.config.stream,
            counts,
            lost.ranges().take(ranges_max),
            turns.ranges().take(ranges_max),
        );
        self.reported = reported;
        self.lost.remove_below(lost_till);
        self.lost_turns.remove_below(turns_till);
        if naks && !(self.lost.is_empty() && self.lost_turns.is_empty()) {
            self.nak_at = Some(now);
        }
        self.check_complete();
        report
    }

    fn check_complete(&mut self) {
        if self.tally.is_full() {
            self.over = true;
            self.events.push(ReceiverEvent::Complete);
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
                self.arrivals.ignored += 1;
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
        self.config.framing.layout().upcoming(offset, len, run)
    }
}

/// Maximum wait before an answer, as a multiple of the settle time.
const SETTLES_MAX: u32 = 4;
/// Bound of events per call: an answer and the completion, with some reserve.
const EVENTS_MAX: usize = 4;
