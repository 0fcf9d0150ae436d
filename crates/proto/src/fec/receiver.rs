//! The side that restores and delivers messages.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::{Deadline, Endpoint, Instant, Message, Span, Transmit, Via};

use super::config::LEN_LEN;
use super::wire::{End, Packet};
use super::{Config, Late};

/// Delivers each message once, as it comes or as soon as it can be restored.
#[derive(Debug)]
pub struct Receiver {
    config: Config,
    /// One for each block of the ring.
    blocks: Vec<Block>,
    end: Option<End>,
    /// When it stops to wait for late datagrams.
    settled: Option<Instant>,
    over: bool,
    counts: Counts,
    events: VecDeque<ReceiverEvent>,
}

/// What has come so far, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that came or were restored.
    pub received: u64,
    /// Messages among them that were restored.
    pub repaired: u64,
    /// Messages among them that were late.
    pub late: u64,
    /// Datagrams, whatever they were.
    pub datagrams: u64,
    /// Symbols that came again, or that nobody missed any more.
    pub duplicates: u64,
    /// Symbols of blocks that are long gone, or that came before the owner had heard of what was in their place.
    pub outrun: u64,
    /// Messages that made no sense.
    pub ignored: u64,
}

/// What the owner of a [`Receiver`] gets to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// What is missing of a block can be restored, and is to be, before the next event.
    Solve(Puzzle),
    /// A message is there.
    Message(Arrived),
    /// No more messages come.
    Complete,
}

/// A block of which enough came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Puzzle {
    /// Its number.
    pub block: u64,
    /// Its source symbols.
    pub count: u8,
    /// The length of each symbol.
    pub symbol_len: u32,
    /// Which symbols are there.
    pub have: Symbols,
}

/// A message that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its block.
    pub block: u64,
    /// Its number there.
    pub symbol: u8,
    /// Where it is; the length of one that was restored is known to the store only, and here the most it can be.
    pub span: Span,
    /// When it was offered, by the receiver's clock.
    pub since: Instant,
    /// Its deadline has passed.
    pub late: bool,
    /// It was lost, and restored.
    pub repaired: bool,
}

/// A set of a block's symbols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Symbols([u64; 4]);

impl Symbols {
    /// Whether `symbol` is in it.
    pub const fn has(&self, symbol: u8) -> bool {
        self.0[symbol as usize / 64] >> (symbol % 64) & 1 == 1
    }

    const fn insert(&mut self, symbol: u8) {
        self.0[symbol as usize / 64] |= 1 << (symbol % 64);
    }
}

/// What is known of one block.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    number: Option<u64>,
    have: Symbols,
    /// How many of its source symbols are there, and of its repair symbols.
    sources: u8,
    repairs: u8,
    /// No source symbol has this number or a higher one.
    top: u8,
    /// What its repair symbols say of it, once one came.
    closed: Option<Closed>,
    /// Nothing more is missed of it.
    solved: bool,
    /// Events that the owner has not heard yet.
    pending: u16,
}

/// How a block was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Closed {
    count: u8,
    symbol_len: u32,
    stamp: u32,
}

impl Receiver {
    /// A receiver of nothing yet; the config must pass [`Config::check`].
    pub fn new(_now: Instant, config: Config, _seed: u64) -> Self {
        assert_eq!(
            config.check(),
            Ok(()),
            "a config is checked before it is used"
        );
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

    /// What has come so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// How many messages were offered, and sent, once the sender has said so.
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
        let Some(packet) = packet.filter(|packet| self.makes_sense(packet, len)) else {
            self.counts.ignored += 1;
            return None;
        };
        let Some(nth) = self.turn_to(packet.block) else {
            self.counts.outrun += 1;
            return None;
        };
        let block = &mut self.blocks[nth];
        if block.have.has(packet.symbol) || block.solved {
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
        self.solve(now, nth);
        self.look_for_end(now);
        Some(self.config.span(packet.block, packet.symbol, len))
    }

    /// Whether a sender with this config could have sent it.
    fn makes_sense(&self, packet: &Packet, len: u32) -> bool {
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

    /// Finds the place of a block, which it takes if it is newer than what was there.
    fn turn_to(&mut self, number: u64) -> Option<usize> {
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

    /// Restores what a block misses, if it can be.
    fn solve(&mut self, now: Instant, nth: usize) {
        let block = &mut self.blocks[nth];
        let (Some(number), Some(closed)) = (block.number, block.closed) else {
            return;
        };
        if u16::from(block.sources) + u16::from(block.repairs) < closed.count.into() {
            return;
        }
        block.solved = true;
        if block.sources == closed.count {
            return;
        }
        let have = block.have;
        block.pending += 1;
        self.events.push_back(ReceiverEvent::Solve(Puzzle {
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

    /// Tells of a message, unless it is late and is to be dropped.
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
        self.events.push_back(ReceiverEvent::Message(Arrived {
            block: number,
            symbol,
            span: self.config.span(number, symbol, len),
            since: now - age,
            late,
            repaired,
        }));
    }

    /// How long ago `stamp` was by the sender's clock; nothing was offered in the future.
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
                self.look_for_end(now);
            }
            Ok(_) | Err(_) => self.counts.ignored += 1,
        }
    }

    /// Tells of the end, if all has come or no more is waited for.
    fn look_for_end(&mut self, now: Instant) {
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
    /// Takes a symbol in; answers whether it fits what is known.
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

/// How a message of so many bytes came to be there.
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
        self.look_for_end(now);
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<Transmit> {
        None
    }

    fn poll_event(&mut self) -> Option<ReceiverEvent> {
        let event = self.events.pop_front()?;
        let block = match event {
            ReceiverEvent::Solve(puzzle) => puzzle.block,
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
