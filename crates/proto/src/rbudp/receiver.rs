//! Receiver of RBUDP: [`Receiver`] is the state machine, [`ReceiverEvent`] its events.
//!
//! It records arriving packets in a tally. It answers each done signal with that tally, after a wait for reordered
//! datagrams. The transfer is complete when the tally is full. In RBUDP+ it also requests pauses.

use core::time::Duration;

use lighthaul_base::{Deadline, Endpoint, Instant, Load, Message, Span, Transmit, Via};
use lighthaul_parts::{ArrivalCounts, Events, ReceiverPause, Tally};

use super::feedback::Feedback;
use super::pause::{Pause, PauseMessage};
use super::receive_window::Memory;
use super::wire::{self, Control, Packet};
use super::{Config, PeerMisbehaved};

/// State machine of the receiver. It places each new packet, and answers every done signal with a tally.
#[derive(Debug)]
// fields: state of one machine, which each event reads and changes
pub struct Receiver {
    config: Config,
    tally: Tally,
    /// Number of the last blast that was answered; 0 before the first.
    round: u16,
    /// Number of packets missing in that answer, which the next blast must send.
    asked: u64,
    /// Done signal whose answer waits for reordered datagrams.
    settling: Option<Settling>,
    hold: ReceiverPause,
    feedback: Option<Feedback>,
    /// Next message about pauses.
    pause_message: Option<PauseMessage>,
    /// Number of messages that requested a pause.
    pauses: u64,
    arrivals: ArrivalCounts,
    /// Total octets on the wire of the datagrams received.
    taken: u64,
    over: bool,
    events: Events<ReceiverEvent, EVENTS_MAX>,
}

/// Event for the owner of a [`Receiver`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// A blast was answered.
    Tallied {
        /// Number of the blast, from 1.
        round: u16,
        /// Packets received in total.
        received: u64,
        /// Number of packets still missing.
        missing: u64,
    },
    /// All packets have arrived, and the final tally was sent.
    Complete,
    /// The sender violated the protocol. No further message is answered.
    Failed(PeerMisbehaved),
}

#[derive(Clone, Copy, Debug)]
struct Settling {
    /// Time of the tally if no further packet arrives.
    at: Instant,
    /// Latest time of the tally.
    latest: Instant,
}

impl Receiver {
    /// Returns a receiver of an object without any data yet. Panics unless `config` passes [`Config::check`].
    pub fn new(_now: Instant, config: Config, _seed: u64) -> Self {
        assert_eq!(config.check(), Ok(()), "the config must pass check()");
        let packets = config.framing.packets();
        Self {
            config,
            tally: Tally::new(packets),
            round: 0,
            asked: packets,
            settling: None,
            hold: ReceiverPause::default(),
            feedback: config
                .feedback
                .map(|feedback| Feedback::new(feedback, config.rate)),
            // the first message, which the sender may wait for: the receiver runs
            pause_message: config.feedback.map(|_| PauseMessage::Window(Pause::NONE)),
            pauses: 0,
            arrivals: ArrivalCounts::default(),
            taken: 0,
            over: false,
            events: Events::default(),
        }
    }

    /// Takes over the knowledge of an earlier receiver on the same socket.
    pub const fn remember(&mut self, memory: Memory) {
        if let Some(feedback) = &mut self.feedback {
            feedback.remember(memory);
        }
    }

    /// Returns the knowledge gathered about the socket. Returns `None` without [`Config::feedback`].
    pub fn memory(&self) -> Option<Memory> {
        self.feedback.as_ref().map(Feedback::memory)
    }

    /// Returns the number of distinct packets received.
    pub const fn received(&self) -> u64 {
        self.tally.count()
    }

    /// Returns the number of packets of the object.
    pub const fn total(&self) -> u64 {
        self.tally.total()
    }

    /// Returns the number of the last blast that was answered; 0 before the first.
    pub const fn round(&self) -> u16 {
        self.round
    }

    /// Returns the counts of the datagrams received.
    pub const fn arrivals(&self) -> ArrivalCounts {
        self.arrivals
    }

    /// Returns the number of pauses requested from the sender.
    pub const fn pauses(&self) -> u64 {
        self.pauses
    }

    /// True if the sender was asked to stop because this host cannot keep up.
    pub const fn is_holding(&self) -> bool {
        self.hold.is_on()
    }

    fn handle_datagram(&mut self, now: Instant, head: &[u8], len: u32) -> Option<Span> {
        self.arrivals.datagrams += 1;
        self.taken += u64::from(self.config.framing.wire_bytes(len));
        let span = self.place(head, len)?;
        if let Some(settling) = &mut self.settling {
            settling.at = (now + self.config.settle).min(settling.latest);
            if self.tally.is_full() {
                settling.at = now;
            }
        }
        Some(span)
    }

    /// Records a packet. Returns the span of its body if it is new and valid.
    fn place(&mut self, head: &[u8], len: u32) -> Option<Span> {
        let packet = Packet::decode(head).ok();
        let packet = packet.filter(|packet| packet.round <= self.round.saturating_add(1));
        let placed = packet.and_then(|packet| {
            let span = self.config.framing.layout().place(packet.number, len)?;
            Some((packet.number, span))
        });
        let Some((number, span)) = placed else {
            self.arrivals.ignored += 1;
            return None;
        };
        if !self.tally.mark(number) {
            self.arrivals.duplicates += 1;
            return None;
        }
        Some(span)
    }

    fn handle_control(&mut self, now: Instant, head: &[u8]) {
        match Control::decode(head) {
            Ok(Control::Done { round, sent }) => self.handle_done(now, round, sent),
            Ok(Control::Tally { .. } | Control::Hold { .. } | Control::Pause(_)) | Err(_) => {
                self.arrivals.ignored += 1;
            }
        }
    }

    fn handle_done(&mut self, now: Instant, round: u16, sent: u64) {
        let expected = self.round.checked_add(1) == Some(round);
        if !expected || self.settling.is_some() || self.over {
            self.arrivals.ignored += 1;
            return;
        }
        if sent != self.asked {
            self.over = true;
            return self
                .events
                .push(ReceiverEvent::Failed(PeerMisbehaved::DoneAfter(sent)));
        }
        let settle = if self.tally.is_full() {
            Duration::ZERO
        } else {
            self.config.settle
        };
        self.settling = Some(Settling {
            at: now + settle,
            latest: now + settle.saturating_mul(SETTLES_MAX),
        });
    }

    /// Returns the tally once the wait for reordered datagrams has ended.
    fn tally(&mut self, now: Instant) -> Option<Transmit> {
        if self.settling.is_none_or(|settling| now < settling.at) {
            return None;
        }
        self.settling = None;
        self.round += 1;
        self.asked = self.tally.missing();
        self.events.push(ReceiverEvent::Tallied {
            round: self.round,
            received: self.tally.count(),
            missing: self.tally.missing(),
        });
        if self.tally.is_full() {
            self.over = true;
            self.events.push(ReceiverEvent::Complete);
        }
        Some(wire::tally(self.config.stream, self.round, &self.tally))
    }

    fn hold(&mut self) -> Option<Transmit> {
        let on = self.hold.poll().filter(|_| !self.over)?;
        Some(wire::hold(self.config.stream, on))
    }

    fn pause_message(&mut self) -> Option<Transmit> {
        let pause_message = self.pause_message.take().filter(|_| !self.over)?;
        self.pauses += u64::from(pause_message != PauseMessage::Window(Pause::NONE));
        Some(wire::pause_message(self.config.stream, pause_message))
    }
}

impl Endpoint for Receiver {
    type Event = ReceiverEvent;

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        match message.via {
            Via::Datagram => self.handle_datagram(now, message.head, message.len),
            Via::Stream(stream) => {
                if stream == self.config.stream && message.len == 0 {
                    self.handle_control(now, message.head);
                } else {
                    self.arrivals.ignored += 1;
                }
                None
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        let feedback = self.feedback.as_mut();
        let pause_message = feedback.and_then(|feedback| feedback.handle_timeout(now));
        self.pause_message = pause_message.or(self.pause_message);
    }

    fn handle_load(&mut self, now: Instant, load: Load) {
        if let Some(feedback) = &mut self.feedback {
            self.pause_message = feedback
                .handle_load(now, load, self.taken)
                .or(self.pause_message);
        }
        self.hold.handle_load(&load);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.hold()
            .or_else(|| self.pause_message())
            .or_else(|| self.tally(now))
    }

    fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.events.poll()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let settling = self.settling.map(|settling| Deadline {
            at: settling.at,
            why: "settle",
        });
        let feedback = self.feedback.as_ref().filter(|_| !self.over);
        let window = feedback.and_then(Feedback::poll_timeout);
        let window = window.map(|at| Deadline { at, why: "window" });
        settling.into_iter().chain(window).min()
    }

    fn upcoming(&self, offset: u64, len: u32) -> Option<Span> {
        let run = |from, packets_max| self.tally.missing_run(from, packets_max);
        self.config.framing.layout().upcoming(offset, len, run)
    }
}

/// Maximum wait before a tally, as a multiple of the settle time.
const SETTLES_MAX: u32 = 20;
/// Bound of events per call: a tally and the completion, with some reserve.
const EVENTS_MAX: usize = 4;
