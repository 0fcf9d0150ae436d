//! Parallel streams: their decoder, and their machines with any sequence of calls.

use std::collections::BTreeSet;

use lighthaul_base::{Endpoint, Instant, Message, Rate, Reader, Span, Transmit, Via};
use lighthaul_proto::stripe::wire::StripeMessage;
use lighthaul_proto::stripe::{Config, PacketLayout, Receiver, Sender, Width};

use crate::pair;

/// Decodes any octets. What decodes encodes to the same octets.
pub fn wire(octets: &[u8]) {
    if let Ok(message) = StripeMessage::decode(octets) {
        assert_eq!(message.encode().as_slice(), octets);
    }
}

/// Reads the octets as a list of calls, and makes them on both machines. No byte is written twice.
pub fn machines(octets: &[u8]) {
    pair::call_all(octets, Pair::new, Pair::call);
}

struct Pair {
    now: Instant,
    sender: Sender,
    receiver: Receiver,
    coming: Vec<Transmit>,
    placed: BTreeSet<Span>,
}

impl Pair {
    fn new(reader: &mut Reader<'_>) -> Option<Self> {
        let config = Config {
            layout: PacketLayout {
                object_len: u64::from(reader.u16().ok()?),
                packet_len: u32::from(reader.u16().ok()?),
            },
            rate: Rate::from_bps(reader.u64().ok()?)?,
            stream: 2,
            streams: u16::from(reader.u8().ok()? % 40),
        };
        config.check().ok()?;
        let width = Width::fixed(config.streams);
        Some(Self {
            now: Instant::ZERO,
            sender: Sender::new(Instant::ZERO, config, width),
            receiver: Receiver::new(Instant::ZERO, config),
            coming: Vec::new(),
            placed: BTreeSet::new(),
        })
    }

    fn call(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        match reader.u8().ok()? % 6 {
            0 => self.now += std::time::Duration::from_nanos(u64::from(reader.u32().ok()?)),
            1 => {
                let stream = u16::from(reader.u8().ok()? % 48);
                self.sender.handle_room(self.now, stream);
            }
            2 => {
                let stream = u16::from(reader.u8().ok()? % 48);
                self.sender.handle_broken(self.now, stream);
            }
            3 => self.deliver(reader)?,
            4 => {
                let via = Via::Stream(u16::from(reader.u8().ok()?));
                let (len, to) = (u32::from(reader.u16().ok()?), reader.u8().ok()?);
                let head_len = usize::from(reader.u8().ok()?);
                let head = reader.take(head_len).ok()?;
                let message = Message { via, head, len };
                if to % 2 == 0 {
                    self.hand_over(message);
                } else {
                    self.sender.handle_message(self.now, message);
                }
            }
            _ => {
                let rate = Rate::from_bps(reader.u64().ok()?)?;
                self.sender.handle_rate(self.now, rate);
            }
        }
        self.drain();
        Some(())
    }

    /// Delivers one of the messages in flight.
    fn deliver(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let nth = usize::from(reader.u8().ok()?);
        if self.coming.is_empty() {
            return Some(());
        }
        let transmit = self.coming.swap_remove(nth % self.coming.len());
        let len = transmit.body.object_len();
        let (via, head) = (transmit.via, transmit.head.as_slice());
        let message = Message { via, head, len };
        if len > 0 {
            self.hand_over(message);
        } else {
            self.sender.handle_message(self.now, message);
        }
        Some(())
    }

    fn hand_over(&mut self, message: Message<'_>) {
        if let Some(span) = self.receiver.handle_message(self.now, message) {
            assert!(self.placed.insert(span), "a span is written twice");
        }
    }

    fn drain(&mut self) {
        while let Some(transmit) = self.sender.poll_transmit(self.now) {
            self.coming.push(transmit);
        }
        self.coming.extend(self.receiver.poll_transmit(self.now));
        while self.sender.poll_event().is_some() {}
        while self.receiver.poll_event().is_some() {}
        self.sender.poll_timeout();
        self.sender.upcoming(0, 1000);
        self.receiver.upcoming(0, 1000);
    }
}
