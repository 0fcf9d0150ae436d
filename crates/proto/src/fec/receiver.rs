//! Receiver of a message stream: [`Receiver`] is the state machine, [`ReceiverEvent`] its events.
//!
//! Each block of the ring collects symbols until no message is missing, or until enough symbols for a [`RepairJob`]
//! have arrived. A new block takes the place of an old one when the owner has taken the events of the old one.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::{Deadline, Endpoint, Instant, Message, Span, Transmit, Via};

use super::config::LEN_LEN;
use super::wire::{End, Packet};
use super::{Config, Late};

/// State machine of the receiver. It delivers each message once, when it arrives or as soon as it can be restored.
#[derive(Debug)]
pub struct Receiver {
    config: Config,
    /// State of each block of the ring.
    blocks: Vec<Block>,
    end: Option<End>,
    /// Time until which the receiver waits for reordered datagrams after the end message.
    settled: Option<Instant>,
    over: bool,
    counts: Counts,
    events: VecDeque<ReceiverEvent>,
}

/// Counters of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that arrived or were restored.
    pub received: u64,
    /// Delivered messages that were restored.
    pub repaired: u64,
    /// Delivered messages that were late.
    pub late: u64,
    /// Datagrams received, valid or not.
    pub datagrams: u64,
    /// Symbols that were duplicates or no longer needed.
    pub duplicates: u64,
    /// Symbols of blocks that have left the ring, or whose place still holds messages that the owner has not taken.
    pub outrun: u64,
    /// Messages that were ignored as invalid.
    pub ignored: u64,
}

/// Event for the owner of a [`Receiver`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// The missing messages of a block can be restored. The owner must do so before it takes the next event.
    Repair(RepairJob),
    /// A message was delivered.
    Message(DeliveredMessage),
    /// The stream has ended.
    Complete,
}

/// Block with a sufficient number of symbols to restore the missing symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairJob {
    /// Block number.
    pub block: u64,
    /// Number of source symbols in the block.
    pub count: u8,
    /// Length of each symbol in bytes.
    pub symbol_len: u32,
    /// Symbols that have arrived.
    pub have: Symbols,
}

/// Delivered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveredMessage {
    /// Number of the message's block.
    pub block: u64,
    /// Symbol number within the block.
    pub symbol: u8,
    /// Place in the ring. For a restored message the length is an upper limit, since only the store knows the real
    /// one.
    pub span: Span,
    /// Time of the offer, by the receiver's clock.
    pub since: Instant,
    /// True if the deadline has passed.
    pub late: bool,
    /// True if the message was lost and restored.
    pub repaired: bool,
}

/// Set of symbols of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Symbols([u64; 4]);

impl Symbols {
    /// True if the set contains `symbol`.
    pub const fn has(&self, symbol: u8) -> bool {
        self.0[symbol as usize / 64] >> (symbol % 64) & 1 == 1
    }

    const fn insert(&mut self, symbol: u8) {
        self.0[symbol as usize / 64] |= 1 << (symbol % 64);
    }
}

/// State of one block.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    number: Option<u64>,
    have: Symbols,
    /// Numbers of source symbols and of repair symbols that have arrived.
    sources: u8,
    repairs: u8,
    /// Highest number of a source symbol that arrived, plus one.
    top: u8,
    /// Parameters of the closed block, known from its first repair symbol.
    closed: Option<Closed>,
    /// True if no symbol is missing, or the missing symbols are being restored.
    is_complete: bool,
    /// Number of events that the owner has not taken yet.
    pending: u16,
}

/// Parameters of a closed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Closed {
    count: u8,
    symbol_len: u32,
    stamp: u32,
}

impl Receiver {
    /// Returns a receiver without messages. Panics unless `config` passes [`Config::check`].
    pub fn new(_now: Instant, config: Config, _seed: u64) -> Self {
        assert_eq!(config.check(), Ok(()), "the config must pass check()");
        Self {
            config,
            blocks: vec![Block::default(); config.blocks.into()],
            end: None,
            settled: None,
            over: false,
            counts: Counts::default(),
            events: VecDeque::new(),
        }
    }

    /// Returns the counters.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the numbers of messages offered and sent, once the end message has arrived.
    pub const fn end(&self) -> Option<End> {
        self.end
    }

    fn handle_datagram(&mut self, now: Instant, head: &[u8], len: u32) -> Option<Span> {
        self.counts.datagrams += 1;
        if self.over {
            self.counts.duplicates += 1;
            return None;
        }
        let packet = Packet::decode(head).ok();
        let Some(packet) = packet.filter(|packet| self.is_valid(packet, len)) else {
            self.counts.ignored += 1;
            return None;
        };
        let Some(nth) = self.claim_block(packet.block) else {
            self.counts.outrun += 1;
            return None;
        };
        let block = &mut self.blocks[nth];
        if block.have.has(packet.symbol) || block.is_complete {
            self.counts.duplicates += 1;
            return None;
        }
        if !block.admit(&packet, len) {
            self.counts.ignored += 1;
            return None;
        }
        if packet.count == 0 {
            self.deliver(now, nth, packet.stamp, Found::Came(packet.symbol, len));
        }
        self.request_repair(now, nth);
        self.check_end(now);
        Some(self.config.span(packet.block, packet.symbol, len))
    }

    /// True if a sender with this config could have sent the packet.
    fn is_valid(&self, packet: &Packet, len: u32) -> bool {
        let code = self.config.code;
        if packet.count == 0 {
            return packet.symbol < code.sources() && len <= self.config.message_len;
        }
        let nth = packet.symbol.checked_sub(code.sources());
        packet.count <= code.sources()
            && nth.is_some_and(|nth| nth < code.repairs_of(packet.count))
            && (LEN_LEN..=self.config.symbol_len()).contains(&len)
            && len.is_multiple_of(2)
    }

    /// Returns the place of a block in the ring, which replaces an older block. Returns `None` if that is not possible.
    fn claim_block(&mut self, number: u64) -> Option<usize> {
        let nth = (number % u64::from(self.config.blocks)) as usize;
        let block = &mut self.blocks[nth];
        if block.number != Some(number) {
            if block.number > Some(number) || block.pending > 0 {
                return None;
            }
            *block = Block {
                number: Some(number),
                ..Block::default()
            };
        }
        Some(nth)
    }

    /// Requests the restoration of a block if enough symbols have arrived.
    fn request_repair(&mut self, now: Instant, nth: usize) {
        let block = &mut self.blocks[nth];
        let (Some(number), Some(closed)) = (block.number, block.closed) else {
            return;
        };
        if u16::from(block.sources) + u16::from(block.repairs) < closed.count.into() {
            return;
        }
        block.is_complete = true;
        if block.sources == closed.count {
            return;
        }
        let have = block.have;
        block.pending += 1;
        self.events.push_back(ReceiverEvent::Repair(RepairJob {
            block: number,
            count: closed.count,
            symbol_len: closed.symbol_len,
            have,
        }));
        for symbol in (0..closed.count).filter(|symbol| !have.has(*symbol)) {
            self.counts.repaired += 1;
            let found = Found::Restored(symbol, closed.symbol_len - LEN_LEN);
            self.deliver(now, nth, closed.stamp, found);
        }
    }

    /// Delivers a message, unless it is late and late messages are dropped.
    fn deliver(&mut self, now: Instant, nth: usize, stamp: u32, found: Found) {
        let age = self.age(now, stamp);
        let late = self.config.deadline.is_some_and(|deadline| age > deadline);
        self.counts.received += 1;
        self.counts.late += u64::from(late);
        let block = &mut self.blocks[nth];
        let Some(number) = block.number else { return };
        if late && self.config.late == Late::Drop {
            return;
        }
        block.pending += 1;
        let (symbol, len, repaired) = match found {
            Found::Came(symbol, len) => (symbol, len, false),
            Found::Restored(symbol, len) => (symbol, len, true),
        };
        self.events
            .push_back(ReceiverEvent::Message(DeliveredMessage {
                block: number,
                symbol,
                span: self.config.span(number, symbol, len),
                since: now - age,
                late,
                repaired,
            }));
    }

    /// Returns the age of `stamp`, or zero if it is in the future.
    fn age(&self, now: Instant, stamp: u32) -> Duration {
        let there = i128::from(now.as_nanos()) - i128::from(self.config.ahead_nanos);
        let micros = there.div_euclid(1000).rem_euclid(1 << 32);
        let micros = u32::try_from(micros).unwrap_or(0);
        let age = micros.wrapping_sub(stamp).cast_signed();
        Duration::from_micros(u64::from(age.max(0).unsigned_abs()))
    }

    fn handle_end(&mut self, now: Instant, head: &[u8]) {
        match End::decode(head) {
            Ok(end) if self.end.is_none() => {
                self.end = Some(end);
                self.settled = Some(now + self.config.settle);
                self.check_end(now);
            }
            Ok(_) | Err(_) => self.counts.ignored += 1,
        }
    }

    /// Reports the end of the stream once all messages have arrived, or the wait for them has ended.
    fn check_end(&mut self, now: Instant) {
        let (Some(end), Some(settled)) = (self.end, self.settled) else {
            return;
        };
        if !self.over && (now >= settled || self.counts.received >= end.sent) {
            self.over = true;
            self.events.push_back(ReceiverEvent::Complete);
        }
    }
}

impl Block {
    /// Adds a symbol. Returns false if it contradicts earlier symbols.
    fn admit(&mut self, packet: &Packet, len: u32) -> bool {
        if packet.count == 0 {
            if self
                .closed
                .is_some_and(|closed| packet.symbol >= closed.count)
            {
                return false;
            }
            self.sources += 1;
            self.top = self.top.max(packet.symbol + 1);
        } else {
            let closed = Closed {
                count: packet.count,
                symbol_len: len,
                stamp: packet.stamp,
            };
            if self.top > packet.count || self.closed.is_some_and(|known| known != closed) {
                return false;
            }
            self.closed = Some(closed);
            self.repairs += 1;
        }
        self.have.insert(packet.symbol);
        true
    }
}

/// Symbol number and length of a message that arrived or was restored.
#[derive(Clone, Copy, Debug)]
enum Found {
    Came(u8, u32),
    Restored(u8, u32),
}

impl Endpoint for Receiver {
    type Event = ReceiverEvent;

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        match message.via {
            Via::Datagram => return self.handle_datagram(now, message.head, message.len),
            Via::Stream(stream) if stream == self.config.stream && message.len == 0 => {
                self.handle_end(now, message.head);
            }
            Via::Stream(_) => self.counts.ignored += 1,
        }
        None
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.check_end(now);
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<Transmit> {
        None
    }

    fn poll_event(&mut self) -> Option<ReceiverEvent> {
        let event = self.events.pop_front()?;
        let block = match event {
            ReceiverEvent::Repair(job) => job.block,
            ReceiverEvent::Message(arrived) => arrived.block,
            ReceiverEvent::Complete => return Some(event),
        };
        let nth = (block % u64::from(self.config.blocks)) as usize;
        self.blocks[nth].pending -= 1;
        Some(event)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let at = self.settled.filter(|_| !self.over)?;
        Some(Deadline { at, why: "settle" })
    }
}
