//! SABUL: its decoders, and its machines under anything that may be handed to them.

use std::collections::BTreeSet;
use std::time::Duration;

use lighthaul_base::{Body, Endpoint, Instant, Load, Message, Rate, Reader, Span, Transmit, Via};
use lighthaul_proto::sabul::wire::{Control, Packet};
use lighthaul_proto::sabul::{Config, Memory, Mode, Receiver, Sender};

/// Decodes whatever comes; what decodes encodes to something that decodes to the same.
pub fn wire(octets: &[u8]) {
    if let Ok(packet) = Packet::decode(octets) {
        assert_eq!(packet.encode(), octets);
    }
    if let Ok(control) = Control::decode(octets) {
        let (head, _) = flatten(&control.transmit(1));
        assert_eq!(Control::decode(&head), Ok(control));
    }
}

/// Reads the octets as a list of calls and makes them on both machines.
///
/// No datagram's first eight octets must ever leave twice, and no byte be placed twice.
pub fn machines(octets: &[u8]) {
    let mut reader = Reader::new(octets);
    let Some(mut pair) = Pair::new(&mut reader) else {
        return;
    };
    while let Some(()) = pair.call(&mut reader) {}
}

struct Pair {
    now: Instant,
    object_len: u64,
    sender: Sender,
    receiver: Receiver,
    to_receiver: Vec<Transmit>,
    to_sender: Vec<Transmit>,
    nonces: BTreeSet<Vec<u8>>,
    placed: BTreeSet<Span>,
}

impl Pair {
    fn new(reader: &mut Reader<'_>) -> Option<Self> {
        let now = Instant::ZERO;
        let config = Config {
            object_len: u64::from(reader.u16().ok()?),
            packet_len: u32::from(reader.u16().ok()?),
            overhead_len: u32::from(reader.u8().ok()?),
            mode: if reader.u8().ok()? % 2 == 0 {
                Mode::Paper
            } else {
                Mode::Swift
            },
            memory: Memory {
                has_lost: reader.u8().ok()? % 2 == 0,
                has_started: reader.u8().ok()? % 2 == 0,
                ..Memory::new(
                    Rate::from_bps(reader.u64().ok()?)?,
                    Duration::from_micros(u64::from(reader.u16().ok()?)),
                )
            },
            rate_max: Rate::from_bps(reader.u64().ok()?)?,
            burst: None,
            stream: 1,
            window_max: u32::from(reader.u8().ok()?),
            ranges_max: u32::from(reader.u8().ok()?),
        };
        config.check().ok()?;
        let mut pair = Self {
            now,
            object_len: config.object_len,
            sender: Sender::new(now, config, 1),
            receiver: Receiver::new(now, config, 1),
            to_receiver: Vec::new(),
            to_sender: Vec::new(),
            nonces: BTreeSet::new(),
            placed: BTreeSet::new(),
        };
        pair.drain();
        Some(pair)
    }

    fn call(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        match reader.u8().ok()? % 12 {
            0 => {
                self.now += Duration::from_nanos(u64::from(reader.u32().ok()?));
                self.sender.handle_timeout(self.now);
                self.receiver.handle_timeout(self.now);
            }
            1 => self
                .sender
                .handle_rate(self.now, Rate::from_bps(reader.u64().ok()?)?),
            2 => {
                let load = Load {
                    backlog_bytes: u64::from(reader.u8().ok()?),
                    backlog_bytes_max: u64::from(reader.u8().ok()?),
                    ..Load::default()
                };
                self.receiver.handle_load(self.now, load);
            }
            3 => self.hand_receiver(Via::Datagram, reader)?,
            4 => self.hand_receiver(Via::Stream(1), reader)?,
            5 => self.hand_sender(Via::Stream(1), reader)?,
            6 => self.hand_sender(Via::Datagram, reader)?,
            7 => {
                let (offset, len) = (u64::from(reader.u16().ok()?), u32::from(reader.u16().ok()?));
                if let Some(span) = self.sender.upcoming(offset, len) {
                    assert!(span.offset >= offset && span.len > 0 && span.len <= len);
                    assert!(span.end() <= self.object_len);
                }
            }
            8 => {
                self.to_receiver.pop();
            }
            9 | 10 => self.deliver_right(usize::from(reader.u8().ok()?)),
            _ => self.deliver_left(),
        }
        self.drain();
        Some(())
    }

    fn hand_receiver(&mut self, via: Via, reader: &mut Reader<'_>) -> Option<()> {
        let (head, len) = message(reader)?;
        let span = self
            .receiver
            .handle_message(self.now, Message { via, head, len });
        self.place(span, len);
        Some(())
    }

    fn hand_sender(&mut self, via: Via, reader: &mut Reader<'_>) -> Option<()> {
        let (head, len) = message(reader)?;
        let span = self
            .sender
            .handle_message(self.now, Message { via, head, len });
        assert_eq!(span, None);
        Some(())
    }

    /// Delivers one of the sender's messages, and keeps it for another time if it was a datagram.
    fn deliver_right(&mut self, nth: usize) {
        if self.to_receiver.is_empty() {
            return;
        }
        let nth = nth % self.to_receiver.len();
        let transmit = if self.to_receiver[nth].via == Via::Datagram {
            self.to_receiver[nth].clone()
        } else {
            self.to_receiver.remove(nth)
        };
        let (head, len) = flatten(&transmit);
        let message = Message {
            via: transmit.via,
            head: &head,
            len,
        };
        let span = self.receiver.handle_message(self.now, message);
        self.place(span, len);
    }

    fn deliver_left(&mut self) {
        if self.to_sender.is_empty() {
            return;
        }
        let transmit = self.to_sender.remove(0);
        let (head, len) = flatten(&transmit);
        let message = Message {
            via: transmit.via,
            head: &head,
            len,
        };
        assert_eq!(self.sender.handle_message(self.now, message), None);
    }

    fn place(&mut self, span: Option<Span>, len: u32) {
        let Some(span) = span else { return };
        assert!(span.len == len && span.end() <= self.object_len);
        assert!(self.placed.insert(span), "{span:?} was placed twice");
    }

    /// What the law asks after each call.
    fn drain(&mut self) {
        while let Some(transmit) = self.sender.poll_transmit(self.now) {
            if transmit.via == Via::Datagram {
                let nonce = transmit.head.as_slice()[..8].to_vec();
                assert!(self.nonces.insert(nonce), "a nonce twice");
            }
            if self.to_receiver.len() < KEPT_MAX {
                self.to_receiver.push(transmit);
            }
        }
        while let Some(transmit) = self.receiver.poll_transmit(self.now) {
            if self.to_sender.len() < KEPT_MAX {
                self.to_sender.push(transmit);
            }
        }
        while self.sender.poll_event().is_some() {}
        while self.receiver.poll_event().is_some() {}
        let _ = (self.sender.poll_timeout(), self.receiver.poll_timeout());
        let _ = self.receiver.upcoming(0, 4096);
        assert!(self.receiver.received() <= self.receiver.total());
        assert!(self.sender.missing() <= self.sender.total());
        for list in [self.sender.losses(), self.receiver.losses()] {
            assert!(list.len() <= list.len_max());
        }
    }
}

/// A head of up to 255 octets, and a length.
fn message<'a>(reader: &mut Reader<'a>) -> Option<(&'a [u8], u32)> {
    let len = u32::from(reader.u16().ok()?);
    let octets = usize::from(reader.u8().ok()?);
    Some((reader.take(octets).ok()?, len))
}

/// The octets before the body as they arrive, and the body's length.
fn flatten(transmit: &Transmit) -> (Vec<u8>, u32) {
    let mut head = transmit.head.as_slice().to_vec();
    let len = match &transmit.body {
        Body::None => 0,
        Body::Object(span) => span.len,
        Body::Words(words) => {
            head.extend(words);
            0
        }
    };
    (head, len)
}

/// Messages kept in flight.
const KEPT_MAX: usize = 4096;
