//! Receiver of a striped transfer.

use alloc::collections::VecDeque;

use lighthaul_base::{Deadline, Endpoint, Instant, Load, Message, Span, Transmit, Via};
use lighthaul_parts::Tally;

use super::Config;
use super::wire::{self, StripeMessage};

/// State machine of the receiver. It places each packet and reports completion.
#[derive(Debug)]
pub struct Receiver {
    config: Config,
    tally: Tally,
    packets: u64,
    duplicates: u64,
    ignored: u64,
    holding: bool,
    is_reported: bool,
    /// Broken streams, as a bit mask.
    broken: u64,
    /// Broken streams that were reported to the sender, as a bit mask.
    broken_reported: u64,
    events: VecDeque<ReceiverEvent>,
}

/// Event for the owner of a [`Receiver`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// All packets have arrived, and the sender was notified.
    Complete,
}

impl Receiver {
    /// Returns a receiver of an object without any data yet. Panics unless `config` passes [`Config::check`].
    pub fn new(_now: Instant, config: Config) -> Self {
        assert_eq!(config.check(), Ok(()), "the config must pass check()");
        Self {
            config,
            tally: Tally::new(config.layout.packets()),
            packets: 0,
            duplicates: 0,
            ignored: 0,
            holding: false,
            is_reported: false,
            broken: 0,
            broken_reported: 0,
            events: VecDeque::with_capacity(1),
        }
    }

    /// Returns the number of distinct packets received.
    pub const fn received(&self) -> u64 {
        self.tally.count()
    }

    /// Returns the number of messages received, valid or not.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the number of duplicate packets received.
    pub const fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Returns the number of messages that were ignored as invalid.
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// True if this host cannot keep up. The sender is not notified, since the unread streams block it.
    pub const fn is_holding(&self) -> bool {
        self.holding
    }

    /// Records a packet. Returns the span of its body if it is new and valid.
    fn place(&mut self, number: u64, len: u32) -> Option<Span> {
        let Some(span) = self.config.layout.place(number, len) else {
            self.ignored += 1;
            return None;
        };
        if !self.tally.mark(number) {
            self.duplicates += 1;
            return None;
        }
        Some(span)
    }
}

impl Endpoint for Receiver {
    type Event = ReceiverEvent;

    fn handle_message(&mut self, _now: Instant, message: Message<'_>) -> Option<Span> {
        let ours = match message.via {
            Via::Stream(stream) => self.config.index(stream).is_some(),
            Via::Datagram => false,
        };
        self.packets += 1;
        match StripeMessage::decode(message.head) {
            Ok(StripeMessage::Packet { number }) if ours => self.place(number, message.len),
            Ok(
                StripeMessage::Packet { .. } | StripeMessage::Whole | StripeMessage::Broken { .. },
            )
            | Err(_) => {
                self.ignored += 1;
                None
            }
        }
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn handle_load(&mut self, _now: Instant, load: Load) {
        self.holding = load.backlog_bytes > load.backlog_bytes_max / 2;
    }

    fn handle_broken(&mut self, _now: Instant, stream: u16) {
        if let Some(index) = self.config.index(stream).filter(|index| *index > 0) {
            self.broken |= 1 << index;
        }
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<Transmit> {
        let unreported = (self.broken & !self.broken_reported).trailing_zeros();
        if unreported < u64::BITS && !self.is_reported {
            self.broken_reported |= 1 << unreported;
            return Some(wire::broken(self.config.stream, unreported as u16));
        }
        if self.is_reported || !self.tally.is_full() {
            return None;
        }
        self.is_reported = true;
        self.events.push_back(ReceiverEvent::Complete);
        Some(wire::whole(self.config.stream))
    }

    fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }

    fn upcoming(&self, offset: u64, len: u32) -> Option<Span> {
        let run = |from, packets_max| self.tally.missing_run(from, packets_max);
        self.config.layout.upcoming(offset, len, run)
    }
}
