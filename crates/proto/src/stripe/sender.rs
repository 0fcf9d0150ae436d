//! Sender of a striped transfer: [`Sender`] is the state machine, [`SenderEvent`] its events.
//!
//! ```text
//!        all packets assigned            report of completion
//! Assigning ------------------> Waiting ----------------------> Over
//!    ^------ a stream broke -----/
//! ```

use alloc::vec::Vec;
use core::fmt;

use lighthaul_base::{Deadline, Endpoint, Instant, Message, Rate, Span, Transmit, Via};
use lighthaul_parts::{Events, LossList, Pacer};

use super::wire::{self, StripeMessage};
use super::{Config, Width};

/// State machine of the sender. It gives the next packet to each stream that has room, until the receiver has the
/// object.
#[derive(Debug)]
pub struct Sender {
    config: Config,
    pacer: Pacer,
    width: Width,
    phase: AssignmentPhase,
    /// Stream of each assigned packet.
    given: Vec<u8>,
    /// Packets to be resent, since their stream broke.
    again: LossList,
    /// Streams with room, as a bit mask.
    room: u64,
    /// Broken streams, as a bit mask.
    broken: u64,
    round: u16,
    sent: u64,
    ignored: u64,
    events: Events<SenderEvent, EVENTS_MAX>,
}

/// Event for the owner of a [`Sender`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderEvent {
    /// Packets are to be assigned: all packets, or the packets of a broken stream.
    Round {
        /// Number of the round, from 1.
        number: u16,
        /// Number of packets.
        packets: u64,
    },
    /// All packets have been assigned.
    Asked {
        /// Number of the round.
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
    /// The receiver reports completion before all packets were sent.
    WholeTooEarly,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AssignmentPhase {
    Assigning,
    /// All packets are assigned, and the receiver has not reported completion.
    Waiting,
    Over,
}

impl Sender {
    /// Returns a sender that begins with the first stream that has room. Panics unless `config` passes
    /// [`Config::check`].
    pub fn new(now: Instant, config: Config, width: Width) -> Self {
        assert_eq!(config.check(), Ok(()), "the config must pass check()");
        let bytes = config.wire_bytes(config.layout.packet_len);
        let mut sender = Self {
            config,
            pacer: Pacer::new(now, config.rate, None, bytes),
            width,
            phase: AssignmentPhase::Assigning,
            given: Vec::with_capacity(config.layout.packets() as usize),
            again: LossList::new(config.layout.packets() as usize),
            room: 0,
            broken: 0,
            round: 0,
            sent: 0,
            ignored: 0,
            events: Events::default(),
        };
        sender.begin_round();
        sender
    }

    /// Returns the number of rounds. Each stream that breaks may add one.
    pub const fn round(&self) -> u16 {
        self.round
    }

    /// Returns the number of packets sent, retransmissions included.
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of retransmissions.
    pub const fn resent(&self) -> u64 {
        self.sent.saturating_sub(self.given.len() as u64)
    }

    /// Returns the number of packets to be assigned.
    pub fn left(&self) -> u64 {
        self.config.layout.packets() - self.given.len() as u64 + self.again.packets()
    }

    /// Returns the number of messages that were ignored as invalid.
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Returns the maximum rate.
    pub const fn rate(&self) -> Rate {
        self.pacer.rate()
    }

    /// Returns the number of streams in use, as the starting point for the next object.
    pub const fn width(&self) -> Width {
        self.width
    }

    fn begin_round(&mut self) {
        self.phase = AssignmentPhase::Assigning;
        self.round = self.round.saturating_add(1);
        let packets = self.left();
        self.events.push(SenderEvent::Round {
            number: self.round,
            packets,
        });
    }

    /// Returns the bit mask of streams that may take packets. The first stream is among them only if all others are
    /// broken.
    const fn usable(&self) -> u64 {
        let all = (2_u64 << self.config.streams) - 1;
        let whole = all & !1 & !self.broken;
        // the lowest intact streams, as many as are in use
        let mut chosen = 0;
        let mut left = whole;
        let mut count = self.width.streams();
        while left != 0 && count > 0 {
            let lowest = left & left.wrapping_neg();
            chosen |= lowest;
            left &= !lowest;
            count -= 1;
        }
        if whole == 0 { 1 } else { chosen }
    }

    /// Returns the next packet for a stream with room, if it may be sent now.
    fn next_packet(&mut self, now: Instant) -> Option<Transmit> {
        let stream = (self.room & self.usable()).trailing_zeros();
        if stream == u64::BITS {
            return None;
        }
        let fresh = self.given.len() as u64;
        let number = self.again.first().unwrap_or(fresh);
        let span = self.config.layout.span(number);
        let bytes = self.config.wire_bytes(span.len);
        // at an unlimited rate, the room on the streams limits the sender
        if self.pacer.rate() != Rate::UNLIMITED && !self.pacer.may_send(now, bytes) {
            return None;
        }
        self.room &= !(1 << stream);
        if number < fresh {
            self.again.pop_first();
            self.given[number as usize] = stream as u8;
        } else {
            self.given.push(stream as u8);
        }
        self.sent += 1;
        self.width.handle_sent(now, bytes);
        let via = self.config.stream + stream as u16;
        Some(wire::packet(via, number, span))
    }

    fn handle_whole(&mut self) {
        match self.phase {
            AssignmentPhase::Over => {}
            // the first transmission of a packet may have arrived although it is to be resent
            _ if self.given.len() as u64 == self.config.layout.packets() => {
                if self.phase == AssignmentPhase::Assigning {
                    self.events.push(SenderEvent::Asked { round: self.round });
                }
                self.phase = AssignmentPhase::Over;
                self.events.push(SenderEvent::Complete);
            }
            AssignmentPhase::Assigning | AssignmentPhase::Waiting => {
                self.phase = AssignmentPhase::Over;
                self.events
                    .push(SenderEvent::Failed(PeerMisbehaved::WholeTooEarly));
            }
        }
    }

    /// Reassigns the packets of a broken stream to the other streams.
    fn break_off(&mut self, index: u16) {
        let there = (1..=self.config.streams).contains(&index);
        if !there || self.broken >> index & 1 == 1 || self.phase == AssignmentPhase::Over {
            return;
        }
        self.broken |= 1 << index;
        let before = self.again.packets();
        for (number, given) in (0..).zip(&self.given) {
            if u16::from(*given) == index {
                self.again.insert(number..number + 1);
            }
        }
        if self.phase == AssignmentPhase::Waiting && self.again.packets() > before {
            self.begin_round();
        }
    }
}

impl Endpoint for Sender {
    type Event = SenderEvent;

    fn handle_message(&mut self, _now: Instant, message: Message<'_>) -> Option<Span> {
        let ours = message.via == Via::Stream(self.config.stream) && message.len == 0;
        match StripeMessage::decode(message.head) {
            Ok(StripeMessage::Whole) if ours => self.handle_whole(),
            Ok(StripeMessage::Broken { stream }) if ours => self.break_off(stream),
            Ok(
                StripeMessage::Whole | StripeMessage::Packet { .. } | StripeMessage::Broken { .. },
            )
            | Err(_) => {
                self.ignored += 1;
            }
        }
        None
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn handle_rate(&mut self, now: Instant, rate: Rate) {
        self.pacer.handle_rate(now, rate);
    }

    fn handle_room(&mut self, _now: Instant, stream: u16) {
        if let Some(index) = self.config.index(stream) {
            self.room |= 1 << index;
        }
    }

    fn handle_broken(&mut self, _now: Instant, stream: u16) {
        if let Some(index) = self.config.index(stream) {
            self.break_off(index);
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if self.phase != AssignmentPhase::Assigning {
            return None;
        }
        if self.left() > 0 {
            return self.next_packet(now);
        }
        self.phase = AssignmentPhase::Waiting;
        self.events.push(SenderEvent::Asked { round: self.round });
        None
    }

    fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.poll()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let waits =
            self.phase == AssignmentPhase::Assigning && self.pacer.rate() != Rate::UNLIMITED;
        let room = self.room & self.usable() != 0;
        (waits && room).then(|| Deadline {
            at: self.pacer.due(),
            why: "pace",
        })
    }

    fn upcoming(&self, offset: u64, len: u32) -> Option<Span> {
        let packet_len = u64::from(self.config.layout.packet_len);
        let start = offset.max(self.given.len() as u64 * packet_len);
        let left = self.config.layout.object_len.checked_sub(start)?;
        let len = left.min(u64::from(len));
        (self.phase == AssignmentPhase::Assigning && len > 0).then(|| Span::new(start, len as u32))
    }
}

impl fmt::Display for PeerMisbehaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WholeTooEarly => write!(
                f,
                "the receiver reports completion before all packets were sent"
            ),
        }
    }
}

impl core::error::Error for PeerMisbehaved {}

/// Bound of events per call: a round, its end, and the completion, with some reserve.
const EVENTS_MAX: usize = 4;
