//! Sender of a message stream: [`Sender`] is the state machine, [`SenderEvent`] its events.
//!
//! Each offered message enters the open block and the queue of symbols. A block is closed when it is full, or when its
//! first message has waited for [`Config::linger`]; then its repair symbols are queued.

use alloc::collections::VecDeque;
use core::time::Duration;

use lighthaul_base::{Body, Deadline, Endpoint, Head, Instant, Message, Rate, Span, Transmit, Via};
use lighthaul_parts::{Events, Pacer};

use super::config::symbol_len;
use super::wire::{BLOCKS_MAX, End, Packet};
use super::{Config, Late};

/// State machine of the sender. It sends each message at once, and repair symbols after each block.
#[derive(Debug)]
// fields: state of one machine, which each event reads and changes
pub struct Sender {
    config: Config,
    pacer: Pacer,
    /// Number of the block that takes the next message, and its contents.
    block: u64,
    open: Option<Open>,
    queue: VecDeque<Symbol>,
    /// True if a message was refused since the last [`SenderEvent::Room`].
    refused: bool,
    ending: bool,
    over: bool,
    offered: u64,
    dropped: u64,
    repairs: u64,
    ignored: u64,
    events: Events<SenderEvent, EVENTS_MAX>,
}

/// Event for the owner of a [`Sender`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderEvent {
    /// Another message fits, after a message was refused.
    Room,
    /// All messages and the end message were sent.
    Complete,
}

/// Block that is not closed yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Time at which the first message of the block was offered.
    since: Instant,
    /// Number of messages in the block.
    count: u8,
    /// Length of the longest message in the block.
    longest: u32,
}

/// Symbol that waits for the pacer.
#[derive(Clone, Copy, Debug)]
struct Symbol {
    block: u64,
    /// Value of [`Packet::count`].
    count: u8,
    nth: u8,
    len: u32,
    since: Instant,
}

impl Sender {
    /// Returns a sender without messages. Panics unless `config` passes [`Config::check`].
    pub fn new(now: Instant, config: Config, _seed: u64) -> Self {
        assert_eq!(config.check(), Ok(()), "the config must pass check()");
        let most = config.wire_bytes(config.symbol_len());
        Self {
            config,
            pacer: Pacer::new(now, config.rate, None, most),
            block: 0,
            open: None,
            queue: VecDeque::new(),
            refused: false,
            ending: false,
            over: false,
            offered: 0,
            dropped: 0,
            repairs: 0,
            ignored: 0,
            events: Events::default(),
        }
    }

    /// Accepts a message of `len` bytes. The owner must write it to the returned span before the next call. Returns
    /// `None` if the ring is full; [`SenderEvent::Room`] follows when it no longer is.
    pub fn offer(&mut self, now: Instant, len: u32) -> Option<Span> {
        assert!(
            len <= self.config.message_len,
            "the message exceeds message_len"
        );
        assert!(!self.ending, "no message may follow the end");
        let oldest = self.queue.front().map_or(self.block, |symbol| symbol.block);
        let is_full = self.block - oldest >= u64::from(self.config.blocks) - 1;
        if is_full || self.block + 1 >= BLOCKS_MAX {
            self.refused = true;
            return None;
        }
        if self.queue.is_empty() {
            self.pacer.rest(now);
        }
        let open = self.open.get_or_insert(Open {
            since: now,
            count: 0,
            longest: 0,
        });
        let nth = open.count;
        open.count += 1;
        open.longest = open.longest.max(len);
        self.offered += 1;
        self.queue.push_back(Symbol {
            block: self.block,
            count: 0,
            nth,
            len,
            since: now,
        });
        let span = self.config.span(self.block, nth, len);
        if nth + 1 == self.config.code.sources() {
            self.close();
        }
        Some(span)
    }

    /// Ends the stream after the messages that were offered.
    pub fn end(&mut self) {
        self.close();
        self.ending = true;
    }

    /// Returns the number of messages accepted.
    pub const fn offered(&self) -> u64 {
        self.offered
    }

    /// Returns the number of messages that were late before they could be sent.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the number of repair symbols sent.
    pub const fn repairs(&self) -> u64 {
        self.repairs
    }

    /// Returns the number of messages from the peer, which are all ignored as invalid.
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Closes the open block, if any, and queues its repair symbols.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let code = self.config.code;
        for nth in 0..code.repairs_of(open.count) {
            self.queue.push_back(Symbol {
                block: self.block,
                count: open.count,
                nth: code.sources() + nth,
                len: symbol_len(open.longest),
                since: open.since,
            });
        }
        self.block += 1;
        let symbols = usize::from(code.sources()) + usize::from(code.repairs());
        assert!(
            self.queue.len() <= symbols * usize::from(self.config.blocks),
            "the queue exceeds the ring"
        );
    }

    /// Returns the first symbol that is not late, and drops the symbols before it.
    fn front(&mut self, now: Instant) -> Option<Symbol> {
        while let Some(symbol) = self.queue.front().copied() {
            if !self.is_late(now, symbol.since) {
                return Some(symbol);
            }
            self.dropped += u64::from(symbol.count == 0);
            self.remove_front();
        }
        None
    }

    fn is_late(&self, now: Instant, since: Instant) -> bool {
        let deadline = self
            .config
            .deadline
            .filter(|_| self.config.late == Late::Drop);
        deadline.is_some_and(|deadline| now.since(since) > deadline)
    }

    /// Removes the first symbol of the queue.
    fn remove_front(&mut self) {
        self.queue.pop_front();
        if core::mem::take(&mut self.refused) {
            self.events.push(SenderEvent::Room);
        }
    }

    fn end_message(&mut self) -> Option<Transmit> {
        if !self.ending || self.over {
            return None;
        }
        self.over = true;
        self.events.push(SenderEvent::Complete);
        let end = End {
            offered: self.offered,
            sent: self.offered - self.dropped,
        };
        Some(end.encode(self.config.stream))
    }
}

impl Endpoint for Sender {
    type Event = SenderEvent;

    fn handle_message(&mut self, _now: Instant, _message: Message<'_>) -> Option<Span> {
        self.ignored += 1;
        None
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self
            .open
            .is_some_and(|open| now >= open.since + self.config.linger)
        {
            self.close();
        }
    }

    fn handle_rate(&mut self, now: Instant, rate: Rate) {
        self.pacer.handle_rate(now, rate);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let Some(symbol) = self.front(now) else {
            return self.end_message();
        };
        if !self.pacer.may_send(now, self.config.wire_bytes(symbol.len)) {
            return None;
        }
        self.repairs += u64::from(symbol.count > 0);
        self.remove_front();
        let packet = Packet {
            block: symbol.block,
            count: symbol.count,
            symbol: symbol.nth,
            stamp: stamp(symbol.since),
        };
        Some(Transmit {
            via: Via::Datagram,
            head: Head::new(&packet.encode()),
            body: Body::Object(self.config.span(symbol.block, symbol.nth, symbol.len)),
        })
    }

    fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.poll()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let linger = self.open.map(|open| Deadline {
            at: open.since + self.config.linger,
            why: "linger",
        });
        let pace = (!self.queue.is_empty()).then(|| Deadline {
            at: self.pacer.due(),
            why: "pace",
        });
        linger.into_iter().chain(pace).min()
    }
}

/// Returns a time as a time stamp of a head.
const fn stamp(at: Instant) -> u32 {
    (at.as_nanos() / Duration::from_micros(1).as_nanos() as u64) as u32
}

/// Bound of events per call: room, and the completion.
const EVENTS_MAX: usize = 2;
