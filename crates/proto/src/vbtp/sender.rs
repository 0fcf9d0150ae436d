//! Sender of VBTP: [`Sender`] is the state machine, [`SenderEvent`] its events.
//!
//! ```text
//!         circuit released                      report of all packets
//! Circuit -----------------> Tail (on the stream) -------------------> Over
//!     \---------- report of all packets, or violation ---------------> Over
//! ```
//!
//! On the circuit, datagrams leave at the rates of the TRC vector: resends first, then new packets. The circuit is
//! released with the last of them, so that it is never idle while the sender waits for an answer.

use core::time::Duration;

use lighthaul_base::{
    Body, Deadline, Endpoint, Head, Instant, Message, Rate, Span, Transmit, Trc, Via,
};
use lighthaul_parts::{Events, LossList, Profile, Turns};

use super::wire::{self, Control, Packet, Report, Sent, TURNS_MAX};
use super::{Config, PeerMisbehaved};

/// State machine of the sender. It sends an object at the rates of a TRC vector, resends lost packets, and sends the
/// tail on the stream.
#[derive(Debug)]
// fields: state of one machine, which each event reads and changes
pub struct Sender {
    config: Config,
    profile: Profile,
    phase: TransferPhase,
    packets: u64,
    /// First packet that was never sent.
    next: u64,
    /// All packets below this number have arrived.
    below: u64,
    /// Packets to be resent. `overflowed` is set if more did not fit in the list.
    lost: LossList,
    overflowed: bool,
    turns: Turns,
    /// Number of questions asked, progress that the latest one asked about, and number of answers received.
    asked: u32,
    asked_about: Option<Sent>,
    answered: u32,
    held: bool,
    datagrams: u64,
    tail_packets: u64,
    ignored: u64,
    events: Events<SenderEvent, EVENTS_MAX>,
}

/// Event for the owner of a [`Sender`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderEvent {
    /// No datagram can be sent at present, so the receiver was asked for missing packets.
    Asked,
    /// The circuit is no longer used and may be given to another transfer.
    Released {
        /// Time between the release and the end of the vector.
        unused: Duration,
    },
    /// The receiver has all packets.
    Complete,
    /// The receiver violated the protocol. Nothing more is sent.
    Failed(PeerMisbehaved),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransferPhase {
    Circuit,
    /// The circuit is released, and all packets are sent on the stream.
    Tail,
    Over,
}

/// Next datagram to send.
#[derive(Clone, Copy, Debug)]
enum Next {
    New,
    Again(u64),
}

impl Sender {
    /// Returns a sender that starts at the position of `now` in the vector. `trc` must be on the clock of `now`.
    /// Panics unless `config` passes [`Config::check`].
    pub fn new(now: Instant, config: Config, trc: Trc, _seed: u64) -> Self {
        assert_eq!(config.check(), Ok(()), "the config must pass check()");
        let datagram_bytes = config.framing.wire_bytes(config.framing.packet_len);
        let mut sender = Self {
            config,
            profile: Profile::new(now, trc, config.burst, config.share, datagram_bytes),
            phase: TransferPhase::Circuit,
            packets: config.framing.packets(),
            next: 0,
            below: 0,
            lost: LossList::new(config.losses_max as usize),
            overflowed: false,
            turns: Turns::new(config.window as usize),
            asked: 0,
            asked_about: None,
            answered: 0,
            held: false,
            datagrams: 0,
            tail_packets: 0,
            ignored: 0,
            events: Events::default(),
        };
        sender.check_release(now);
        sender
    }

    /// Returns the number of datagrams sent on the circuit.
    pub const fn sent(&self) -> u64 {
        self.datagrams
    }

    /// Returns the number of retransmissions.
    pub const fn resent(&self) -> u64 {
        self.datagrams + self.tail_packets - self.next
    }

    /// Returns the number of packets sent on the stream.
    pub const fn tail(&self) -> u64 {
        self.tail_packets
    }

    /// Returns the number of questions asked.
    pub const fn questions(&self) -> u32 {
        self.asked
    }

    /// Returns the number of packets from the first unacknowledged packet on, even if some of them have arrived.
    pub const fn missing(&self) -> u64 {
        self.packets - self.below
    }

    /// Returns the number of packets that wait to be sent, with known losses.
    pub fn unsent(&self) -> u64 {
        self.packets - self.next + self.lost.packets()
    }

    /// Returns the number of packets of the object.
    pub const fn total(&self) -> u64 {
        self.packets
    }

    /// Returns the circuit's rate at the latest update, or `None` in a gap and after the end of the vector.
    pub const fn rate(&self) -> Option<Rate> {
        self.profile.rate()
    }

    /// True while the circuit is in use.
    pub fn is_on_circuit(&self) -> bool {
        self.phase == TransferPhase::Circuit
    }

    /// True if the receiver has asked to stop because its host cannot keep up.
    pub const fn is_held(&self) -> bool {
        self.held
    }

    /// Returns the number of messages that were ignored as invalid.
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Releases the circuit once all packets were sent. What the receiver reports missing later is sent on the stream,
    /// as the circuit would be idle until that report (section 4.2).
    fn release_if_sent(&mut self, now: Instant) {
        let is_sent = self.next == self.packets && self.lost.is_empty();
        if is_sent && self.phase == TransferPhase::Circuit {
            self.release(now);
        }
    }

    /// Releases the circuit at its end, or if the last packets would have to wait through a long gap.
    fn check_release(&mut self, now: Instant) {
        if self.phase != TransferPhase::Circuit {
            return;
        }
        let is_waiting = self.next == self.packets && !self.lost.is_empty();
        if now >= self.profile.end()
            || (is_waiting && self.profile.is_idle(now, self.config.rtt * 2))
        {
            self.release(now);
        }
    }

    fn release(&mut self, now: Instant) {
        self.phase = TransferPhase::Tail;
        let unused = self.profile.end().since(now);
        self.events.push(SenderEvent::Released { unused });
    }

    /// Returns the next datagram to send, regardless of the rate.
    fn next(&self) -> Option<Next> {
        if self.held {
            return None;
        }
        if !self.lost.is_empty() && self.turns.has_room() {
            return self.lost.first().map(Next::Again);
        }
        if self.next < self.packets && self.next - self.below < u64::from(self.config.window) {
            return Some(Next::New);
        }
        None
    }

    /// Returns the next datagram, if it may be sent now.
    fn datagram(&mut self, now: Instant, next: Next) -> Option<Transmit> {
        if self.turns.count() + 1 >= TURNS_MAX {
            // no two resends may have the same turn, so the rest is sent on the stream
            self.release(now);
            return Some(self.piece(next));
        }
        let number = match next {
            Next::New => self.next,
            Next::Again(number) => number,
        };
        let span = self.config.framing.layout().span(number);
        if !self
            .profile
            .may_send(now, self.config.framing.wire_bytes(span.len))
        {
            return None;
        }
        let (again, turn) = match next {
            Next::New => {
                self.next += 1;
                (false, self.turns.count())
            }
            Next::Again(_) => {
                self.lost.remove(number);
                (true, self.turns.push(number))
            }
        };
        self.datagrams += 1;
        let packet = Packet {
            again,
            turn,
            number,
        };
        Some(Transmit {
            via: Via::Datagram,
            head: Head::new(&packet.encode()),
            body: Body::Object(span),
        })
    }

    /// Returns the next packet as a message on the stream.
    fn piece(&mut self, next: Next) -> Transmit {
        let number = match next {
            Next::New => {
                self.next += 1;
                self.next - 1
            }
            Next::Again(number) => {
                self.lost.remove(number);
                // counts as a turn, so that the answer to an earlier question does not cause a further resend
                self.turns.push(number);
                number
            }
        };
        self.tail_packets += 1;
        wire::piece(
            self.config.stream,
            number,
            self.config.framing.layout().span(number),
        )
    }

    /// Returns a question, unless it was asked before or an answer is outstanding.
    fn ask(&mut self) -> Option<Transmit> {
        let sent = self.progress();
        let news = self.overflowed || self.asked_about != Some(sent);
        if self.held || self.asked != self.answered || !news {
            return None;
        }
        self.overflowed = false;
        self.asked = self.asked.wrapping_add(1);
        self.asked_about = Some(sent);
        self.events.push(SenderEvent::Asked);
        Some(wire::question(self.config.stream, sent))
    }

    fn progress(&self) -> Sent {
        Sent {
            packets: self.next,
            turns: self.turns.count(),
        }
    }

    fn handle_control(&mut self, now: Instant, head: &[u8]) {
        match Control::decode(head) {
            Ok(Control::Report(_) | Control::Hold { .. }) if self.phase == TransferPhase::Over => {}
            Ok(Control::Report(report)) => match self.check(&report) {
                Ok(()) => self.handle_report(now, &report),
                Err(why) => self.end(now, SenderEvent::Failed(why)),
            },
            Ok(Control::Hold { on }) => self.held = on,
            Ok(Control::Question(_) | Control::Piece { .. }) | Err(_) => self.ignored += 1,
        }
    }

    /// Fails if no conforming receiver could have sent the report.
    fn check(&self, report: &Report<'_>) -> Result<(), PeerMisbehaved> {
        let sent = self.progress();
        let packets = report.below.max(report.packets.end());
        let turns = report.turns.max(report.lost_turns.end());
        if packets > sent.packets {
            Err(PeerMisbehaved::UnsentPacket(packets))
        } else if turns > sent.turns {
            Err(PeerMisbehaved::UnsentTurn(turns))
        } else if report.below < self.below {
            Err(PeerMisbehaved::Shrank(report.below))
        } else if report.answered != self.answered && report.answered != self.asked {
            Err(PeerMisbehaved::Unasked(report.answered))
        } else {
            Ok(())
        }
    }

    fn handle_report(&mut self, now: Instant, report: &Report<'_>) {
        self.below = report.below;
        for range in report.packets.iter() {
            self.overflowed |= self.lost.insert(range).is_none();
        }
        if report.answered == self.answered {
            for range in report.lost_turns.iter() {
                for number in self.turns.lose(range) {
                    self.overflowed |= self.lost.insert(number..number + 1).is_none();
                }
            }
        } else if let Some(asked_about) = self.asked_about {
            self.answered = report.answered;
            // the answer does not cover resends sent after the question
            for number in self.turns.since(asked_about.turns) {
                self.lost.remove(number);
            }
            self.turns.forget_below(asked_about.turns);
        }
        self.turns.forget_below(report.turns);
        self.lost.remove_below(self.below);
        if self.below == self.packets {
            self.end(now, SenderEvent::Complete);
        }
    }

    fn end(&mut self, now: Instant, how: SenderEvent) {
        if self.phase == TransferPhase::Circuit {
            self.release(now);
        }
        self.phase = TransferPhase::Over;
        self.events.push(how);
    }
}

impl Endpoint for Sender {
    type Event = SenderEvent;

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        if message.via == Via::Stream(self.config.stream) && message.len == 0 {
            self.handle_control(now, message.head);
        } else {
            self.ignored += 1;
        }
        self.check_release(now);
        None
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.check_release(now);
    }

    /// Reacts only to [`Rate::UNLIMITED`], since the vector determines the rates. A driver passes it if there is no
    /// circuit, and all packets are then sent on the stream.
    fn handle_rate(&mut self, now: Instant, rate: Rate) {
        if rate == Rate::UNLIMITED && self.phase == TransferPhase::Circuit {
            self.release(now);
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        match (self.phase, self.next()) {
            (TransferPhase::Over, _) => None,
            (TransferPhase::Circuit, Some(next)) => self.datagram(now, next),
            (TransferPhase::Tail, Some(next)) => Some(self.piece(next)),
            (TransferPhase::Circuit | TransferPhase::Tail, None) => {
                self.release_if_sent(now);
                self.ask()
            }
        }
    }

    fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.poll()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        if self.phase != TransferPhase::Circuit {
            return None;
        }
        let end = self.profile.end();
        Some(match self.next() {
            Some(_) => Deadline {
                at: self.profile.due().min(end),
                why: "pace",
            },
            None => Deadline {
                at: end,
                why: "release",
            },
        })
    }

    fn upcoming(&self, offset: u64, len: u32) -> Option<Span> {
        let start = offset.max(self.next * u64::from(self.config.framing.packet_len));
        let len = self
            .config
            .framing
            .object_len
            .checked_sub(start)?
            .min(u64::from(len));
        (len > 0 && self.phase != TransferPhase::Over).then(|| Span::new(start, len as u32))
    }
}

/// Bound of events per call: a question and the release of the circuit, events of the call before, and the completion.
const EVENTS_MAX: usize = 6;
