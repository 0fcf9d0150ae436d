//! Sender with generated messages, for simulations.

use core::ops::RangeInclusive;
use core::time::Duration;

use lighthaul_base::{Deadline, Endpoint, Instant, Message, Rate, Span, Transmit};
use lighthaul_proto::fec::{Config, Sender, SenderEvent};

/// Sender that offers a message at every interval, and the end after the last message. A message that was refused is
/// offered again when there is room.
#[derive(Debug)]
pub struct Feed {
    sender: Sender,
    every: Duration,
    /// Range of message lengths, which are used in turn.
    lens: RangeInclusive<u32>,
    left: u64,
    next: Instant,
    refused: bool,
}

impl Feed {
    /// Returns a feed of `messages` messages. Their lengths cycle through `lens`. Panics if there are no messages.
    pub fn new(config: Config, every: Duration, messages: u64, lens: RangeInclusive<u32>) -> Self {
        assert!(messages > 0 && !lens.is_empty(), "a feed needs a message");
        Self {
            sender: Sender::new(Instant::ZERO, config, 0),
            every,
            lens,
            left: messages,
            next: Instant::ZERO,
            refused: false,
        }
    }

    /// Returns the sender.
    pub const fn sender(&self) -> &Sender {
        &self.sender
    }

    fn offer(&mut self, now: Instant) {
        while self.left > 0 && !self.refused && now >= self.next {
            let kinds = u64::from(self.lens.end() - self.lens.start()) + 1;
            let len = self.lens.start() + (self.left % kinds) as u32;
            self.refused = self.sender.offer(now, len).is_none();
            if self.refused {
                return;
            }
            self.left -= 1;
            self.next = now + self.every;
            if self.left == 0 {
                self.sender.end();
            }
        }
    }
}

impl Endpoint for Feed {
    type Event = SenderEvent;

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        self.sender.handle_message(now, message)
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.offer(now);
        self.sender.handle_timeout(now);
    }

    fn handle_rate(&mut self, now: Instant, rate: Rate) {
        self.sender.handle_rate(now, rate);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.sender.poll_transmit(now)
    }

    fn poll_event(&mut self) -> Option<SenderEvent> {
        let event = self.sender.poll_event();
        self.refused &= event != Some(SenderEvent::Room);
        event
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let offer = (self.left > 0 && !self.refused).then_some(Deadline {
            at: self.next,
            why: "offer",
        });
        self.sender.poll_timeout().into_iter().chain(offer).min()
    }
}
