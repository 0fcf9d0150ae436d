//! Sender of RBUDP: [`Sender`] is the state machine, [`SenderEvent`] its events.
//!
//! ```text
//!          all packets of the blast sent           tally with missing packets
//! Blasting -----------------------------> Asking ------------------------------> Blasting (next blast)
//!     \                                      \---- full tally ------------------> Over
//!      \---- protocol violation of the receiver --------------------------------> Over
//! ```
//!
//! A blast may have two passes. In RBUDP+ a pause of the receiver interrupts a blast.

use core::fmt;
use core::mem;

use lighthaul_base::{Body, Deadline, Endpoint, Head, Instant, Message, Rate, Span, Transmit, Via};
use lighthaul_parts::{Events, Pacer, Tally};

use super::Config;
use super::feedback::{GrantedWindow, PauseTracker};
use super::pause::PauseMessage;
use super::wire::{self, Control, Packet};

/// State machine of the sender. It sends all packets, asks for a tally, and resends missing packets until none is
/// left.
#[derive(Debug)]
// fields: state of one machine, which each event reads and changes
pub struct Sender {
    config: Config,
    pacer: Pacer,
    phase: RoundPhase,
    /// Packets that the receiver has confirmed.
    tally: Tally,
    /// Number of the present blast, from 1.
    round: u16,
    /// Lower bound of the packets that this pass still has to send.
    cursor: u64,
    held: bool,
    pauses: Option<PauseTracker>,
    /// True while the owner has been notified of a pause.
    is_paused: bool,
    /// Number of passes in this blast: two if the blast is sent twice. `pass` is the present one, from 1.
    passes: u8,
    pass: u8,
    round_sent: u64,
    sent: u64,
    ignored: u64,
    events: Events<SenderEvent, EVENTS_MAX>,
}

/// Event for the owner of a [`Sender`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderEvent {
    /// A blast begins.
    Round {
        /// Number of the blast, from 1.
        number: u16,
        /// Number of packets in the blast.
        packets: u64,
    },
    /// A blast was sent, and the receiver was asked for a tally.
    Asked {
        /// Number of the blast.
        round: u16,
    },
    /// The receiver requested a pause within a running blast (RBUDP+), or the pause has ended.
    Paused(bool),
    /// A whole blast brought no new packet to the receiver. The next blast begins.
    Barren {
        /// Number of the blast.
        round: u16,
    },
    /// The receiver has all packets.
    Complete,
    /// The receiver violated the protocol. Nothing more is sent.
    Failed(PeerMisbehaved),
}

/// Protocol violation by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerMisbehaved {
    /// A tally does not fit the object.
    TallyMalformed,
    /// A tally answers a blast that is not waiting for an answer.
    TallyOfRound(u16),
    /// A tally lacks a packet that an earlier tally had.
    TallyShrank,
    /// A done signal claims another number of packets than were missing.
    DoneAfter(u64),
    /// Packets are still missing after 65535 blasts.
    NeverFull,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoundPhase {
    Blasting,
    /// The done signal was sent, and its tally has not arrived.
    Asking,
    Over,
}

impl Sender {
    /// Returns a sender that begins at once. Panics unless `config` passes [`Config::check`].
    pub fn new(now: Instant, config: Config, _seed: u64) -> Self {
        assert_eq!(config.check(), Ok(()), "the config must pass check()");
        let pacer = Pacer::new(
            now,
            config.rate,
            config.burst,
            config.framing.wire_bytes(config.framing.packet_len),
        );
        let mut sender = Self {
            config,
            pacer,
            phase: RoundPhase::Blasting,
            tally: Tally::new(config.framing.packets()),
            round: 0,
            cursor: 0,
            held: false,
            pauses: config.feedback.map(|feedback| {
                if config.awaits_first_message(feedback) {
                    PauseTracker::until_first_message(now, feedback, config.rate)
                } else {
                    PauseTracker::new(now, feedback, config.rate)
                }
            }),
            is_paused: false,
            passes: 1,
            pass: 1,
            round_sent: 0,
            sent: 0,
            ignored: 0,
            events: Events::default(),
        };
        sender.blast();
        sender
    }

    /// Starts with a window that the receiver's socket granted to an earlier sender. The socket must be empty, and no
    /// datagram sent yet.
    pub const fn remember(&mut self, granted: GrantedWindow) {
        if let Some(pauses) = &mut self.pauses {
            pauses.remember(granted);
        }
    }

    /// Returns the window of the receiver's empty socket, if the receiver shares its processor.
    pub fn granted(&self) -> Option<GrantedWindow> {
        self.pauses.as_ref().and_then(PauseTracker::granted)
    }

    /// Returns the number of the present blast, from 1.
    pub const fn round(&self) -> u16 {
        self.round
    }

    /// Returns the number of packets sent in this blast.
    pub const fn round_sent(&self) -> u64 {
        self.round_sent
    }

    /// Returns the number of packets in this blast, sent or not.
    pub const fn round_packets(&self) -> u64 {
        self.tally.missing()
    }

    /// Returns the number of packets sent in all blasts.
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of retransmissions.
    pub const fn resent(&self) -> u64 {
        if self.round == 1 {
            0
        } else {
            self.sent - self.tally.total()
        }
    }

    /// Returns the number of packets that the receiver has not confirmed.
    pub const fn missing(&self) -> u64 {
        self.tally.missing()
    }

    /// Returns the number of packets of the object.
    pub const fn total(&self) -> u64 {
        self.tally.total()
    }

    /// True if the receiver has asked to stop because its host cannot keep up.
    pub const fn is_held(&self) -> bool {
        self.held
    }

    /// Returns the number of messages that were ignored as invalid.
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Returns the nominal sending rate.
    pub const fn rate(&self) -> Rate {
        self.pacer.rate()
    }

    /// Begins the next blast.
    fn blast(&mut self) {
        self.phase = RoundPhase::Blasting;
        self.round += 1;
        self.cursor = 0;
        self.round_sent = 0;
        self.pass = 1;
        self.passes = if self.round > 1 && self.is_short() {
            2
        } else {
            1
        };
        self.events.push(SenderEvent::Round {
            number: self.round,
            packets: self.tally.missing(),
        });
    }

    /// True if the blast takes less time than [`Config::repeat`].
    fn is_short(&self) -> bool {
        let bytes = u64::from(
            self.config
                .framing
                .wire_bytes(self.config.framing.packet_len),
        );
        let blast = self
            .pacer
            .rate()
            .time_for(bytes.saturating_mul(self.tally.missing()));
        blast < self.config.repeat
    }

    fn handle_control(&mut self, now: Instant, head: &[u8]) {
        match Control::decode(head) {
            Ok(Control::Tally { round, octets }) => self.handle_tally(now, round, octets),
            Ok(Control::Hold { on }) => self.handle_hold(now, on),
            Ok(Control::Pause(pause_message)) => self.handle_pause(now, pause_message),
            Ok(Control::Done { .. }) | Err(_) => self.ignored += 1,
        }
    }

    fn handle_tally(&mut self, now: Instant, round: u16, octets: &[u8]) {
        match self.phase {
            RoundPhase::Over => {}
            RoundPhase::Blasting => self.fail(PeerMisbehaved::TallyOfRound(round)),
            RoundPhase::Asking if round != self.round => {
                self.fail(PeerMisbehaved::TallyOfRound(round));
            }
            RoundPhase::Asking => match Tally::decode(octets, self.tally.total()) {
                Err(_) => self.fail(PeerMisbehaved::TallyMalformed),
                Ok(tally) if !tally.includes(&self.tally) => self.fail(PeerMisbehaved::TallyShrank),
                Ok(tally) => self.answer(now, tally),
            },
        }
    }

    /// Continues after a valid tally: completes the transfer or begins the next blast.
    fn answer(&mut self, now: Instant, tally: Tally) {
        let barren = tally.count() == self.tally.count();
        self.tally = tally;
        if self.tally.is_full() {
            self.phase = RoundPhase::Over;
            self.events.push(SenderEvent::Complete);
            return;
        }
        if barren {
            self.events.push(SenderEvent::Barren { round: self.round });
        }
        if self.round == u16::MAX {
            return self.fail(PeerMisbehaved::NeverFull);
        }
        self.pacer.rest(now);
        self.blast();
    }

    fn handle_hold(&mut self, now: Instant, on: bool) {
        if self.held && !on {
            self.pacer.rest(now);
        }
        self.held = on;
    }

    fn handle_pause(&mut self, now: Instant, pause_message: PauseMessage) {
        let pauses = self.pauses.as_mut();
        if !pauses.is_some_and(|pauses| pauses.handle_message(now, pause_message)) {
            self.ignored += 1;
        }
    }

    /// True if the receiver wants no datagrams now. Reports the beginning of a pause to the owner.
    fn is_pausing(&mut self, now: Instant) -> bool {
        let pauses = self.pauses.as_mut();
        let is_on = pauses.is_some_and(|pauses| pauses.is_on(now));
        // before the first datagram there is no pause: the receiver has not started yet
        if is_on && !self.is_paused && self.sent > 0 {
            self.is_paused = true;
            self.events.push(SenderEvent::Paused(true));
        }
        self.held || is_on
    }

    /// Ends a pause before a datagram. The pacer does not catch up, since the pause was requested.
    fn end_pause(&mut self, now: Instant) {
        let pauses = self.pauses.as_mut();
        if pauses.is_some_and(|pauses| pauses.end(now)) {
            self.pacer.rest(now);
        }
        if mem::take(&mut self.is_paused) {
            self.events.push(SenderEvent::Paused(false));
        }
    }

    fn fail(&mut self, why: PeerMisbehaved) {
        self.phase = RoundPhase::Over;
        self.events.push(SenderEvent::Failed(why));
    }

    /// Returns packet `number`, if it may be sent now.
    fn next_packet(&mut self, now: Instant, number: u64) -> Option<Transmit> {
        let span = self.config.framing.layout().span(number);
        if self.is_pausing(now) {
            return None;
        }
        self.end_pause(now);
        let octets = self.config.framing.wire_bytes(span.len);
        if !self.pacer.may_send(now, octets) {
            return None;
        }
        if let Some(pauses) = &mut self.pauses {
            pauses.spend(octets);
        }
        assert!(
            number >= self.cursor,
            "a packet must not be sent twice in a pass"
        );
        self.cursor = number + 1;
        self.round_sent += 1;
        self.sent += 1;
        let packet = Packet {
            round: self.round,
            again: self.pass == 2,
            number,
        };
        Some(Transmit {
            via: Via::Datagram,
            head: Head::new(&packet.encode()),
            body: Body::Object(span),
        })
    }

    fn done(&mut self) -> Transmit {
        let packets = self.tally.missing();
        assert_eq!(
            self.round_sent,
            packets * u64::from(self.passes),
            "each pass must send all missing packets"
        );
        self.phase = RoundPhase::Asking;
        self.events.push(SenderEvent::Asked { round: self.round });
        wire::done(self.config.stream, self.round, packets)
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
        None
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn handle_rate(&mut self, now: Instant, rate: Rate) {
        self.pacer.handle_rate(now, rate);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if self.phase != RoundPhase::Blasting {
            return None;
        }
        let mut next = self.tally.next_missing(self.cursor);
        if next.is_none() && self.pass < self.passes {
            self.pass += 1;
            self.cursor = 0;
            next = self.tally.next_missing(0);
        }
        match next {
            Some(number) => self.next_packet(now, number),
            None => Some(self.done()),
        }
    }

    fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.poll()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        if self.phase != RoundPhase::Blasting || self.held {
            return None;
        }
        let due = self.pacer.due();
        let pause = self.pauses.as_ref().and_then(PauseTracker::till);
        Some(match pause.filter(|till| *till > due) {
            Some(at) => Deadline { at, why: "pause" },
            None => Deadline {
                at: due,
                why: "pace",
            },
        })
    }

    fn upcoming(&self, offset: u64, len: u32) -> Option<Span> {
        if self.phase != RoundPhase::Blasting || len == 0 {
            return None;
        }
        let packet_len = u64::from(self.config.framing.packet_len);
        let from = self.cursor.max(offset / packet_len);
        let packets_max = u64::from(len) / packet_len + 2;
        let run = self.tally.missing_run(from, packets_max)?;
        let start = offset.max(run.start * packet_len);
        let end = (run.end * packet_len).min(self.config.framing.object_len);
        // an offset in the last packet may exceed the object's length
        let len = end.checked_sub(start)?.min(u64::from(len));
        (len > 0).then(|| Span::new(start, len as u32))
    }
}

impl fmt::Display for PeerMisbehaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TallyMalformed => write!(f, "the receiver's tally does not fit the object"),
            Self::TallyOfRound(round) => {
                write!(
                    f,
                    "the receiver sent an unrequested tally for blast {round}"
                )
            }
            Self::TallyShrank => write!(
                f,
                "the receiver's tally lacks packets that an earlier tally had"
            ),
            Self::DoneAfter(sent) => {
                write!(
                    f,
                    "the sender reports {sent} packets in a blast, which differs from the number of missing packets"
                )
            }
            Self::NeverFull => write!(f, "the receiver still lacks packets after 65535 blasts"),
        }
    }
}

impl core::error::Error for PeerMisbehaved {}

/// Bound of events per call: a barren blast and the next blast, a tally request, and the start and end of a pause.
const EVENTS_MAX: usize = 5;
