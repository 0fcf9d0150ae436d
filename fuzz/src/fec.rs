//! Message streams: their decoders, and their machines with any sequence of calls.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lighthaul_base::{Endpoint, Instant, Message, Rate, Reader, Span, Via};
use lighthaul_proto::fec::wire::{End, Packet};
use lighthaul_proto::fec::{Code, Config, Late, Receiver, ReceiverEvent, Sender};

use crate::pair;

/// Decodes any octets. What decodes encodes to the same octets.
pub fn wire(octets: &[u8]) {
    if let Ok(packet) = Packet::decode(octets) {
        assert_eq!(packet.encode(), octets);
    }
    if let Ok(end) = End::decode(octets) {
        assert_eq!(end.encode(1).head.as_slice(), octets);
    }
    if let Ok(code) = String::from_utf8_lossy(octets).parse::<Code>() {
        assert!(code.is_possible());
        assert_eq!(code.to_string().parse(), Ok(code));
    }
}

/// Reads the octets as a list of calls, and makes them on both machines.
///
/// No two datagrams have the same first eight octets. No message is delivered twice while its place
/// belongs to it. Nothing is written outside the ring.
pub fn machines(octets: &[u8]) {
    pair::call_all(octets, Pair::new, Pair::call);
}

struct Pair {
    now: Instant,
    config: Config,
    sender: Sender,
    receiver: Receiver,
    /// Headers and lengths of datagrams in flight.
    flying: Vec<(Vec<u8>, u32)>,
    heads: BTreeSet<Vec<u8>>,
    /// Places of delivered messages, with their blocks.
    delivered: BTreeMap<u64, u64>,
    ended: bool,
}

impl Pair {
    fn new(reader: &mut Reader<'_>) -> Option<Self> {
        let now = Instant::ZERO;
        let (sources, repairs) = (reader.u8().ok()?, reader.u8().ok()?);
        let config = Config {
            message_len: u32::from(reader.u8().ok()?),
            code: match repairs {
                0 => Code::None,
                1 => Code::Xor(sources),
                _ => Code::ReedSolomon(sources, repairs),
            },
            blocks: u16::from(reader.u8().ok()?),
            linger: Duration::from_micros(u64::from(reader.u16().ok()?)),
            deadline: Some(Duration::from_micros(u64::from(reader.u32().ok()?))),
            late: if reader.u8().ok()? & 1 == 0 {
                Late::Drop
            } else {
                Late::Deliver
            },
            overhead_len: 28,
            rate: Rate::from_bps(reader.u64().ok()?)?,
            stream: 1,
            settle: Duration::from_micros(u64::from(reader.u16().ok()?)),
            ahead_nanos: i64::from(reader.u32().ok()?) << 20,
        };
        config.check().ok()?;
        Some(Self {
            now,
            config,
            sender: Sender::new(now, config, 1),
            receiver: Receiver::new(now, config, 1),
            flying: Vec::new(),
            heads: BTreeSet::new(),
            delivered: BTreeMap::new(),
            ended: false,
        })
    }

    fn call(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        match reader.u8().ok()? % 8 {
            0 | 1 if !self.ended => {
                let len = u32::from(reader.u8().ok()?) % (self.config.message_len + 1);
                if let Some(span) = self.sender.offer(self.now, len) {
                    assert!(span.len == len && span.end() <= self.config.ring_len());
                }
            }
            0 | 1 => {}
            2 => {
                self.now += Duration::from_nanos(u64::from(reader.u32().ok()?));
                self.sender.handle_timeout(self.now);
                self.receiver.handle_timeout(self.now);
            }
            3 => {
                self.sender.end();
                self.ended = true;
            }
            4 => {
                let via = if reader.u8().ok()? & 1 == 0 {
                    Via::Datagram
                } else {
                    Via::Stream(1)
                };
                let len = u32::from(reader.u8().ok()?);
                let head = usize::from(reader.u8().ok()?) % 32;
                let head = reader.take(head).ok()?.to_vec();
                self.hand(via, &head, len);
            }
            5 => {
                self.flying.pop();
            }
            _ => {
                let nth = usize::from(reader.u8().ok()?);
                if !self.flying.is_empty() {
                    let (head, len) = self.flying[nth % self.flying.len()].clone();
                    self.hand(Via::Datagram, &head, len);
                }
            }
        }
        self.drain();
        Some(())
    }

    fn hand(&mut self, via: Via, head: &[u8], len: u32) {
        let message = Message { via, head, len };
        if let Some(span) = self.receiver.handle_message(self.now, message) {
            assert!(span.len == len && span.end() <= self.config.ring_len());
        }
        assert_eq!(self.sender.handle_message(self.now, message), None);
    }

    /// Polls both machines, as the contract of `Endpoint` requires after each call.
    fn drain(&mut self) {
        while let Some(transmit) = self.sender.poll_transmit(self.now) {
            if transmit.via != Via::Datagram {
                continue;
            }
            let head = transmit.head.as_slice().to_vec();
            assert!(
                self.heads.insert(head[..8].to_vec()),
                "a packet number was used twice"
            );
            let lighthaul_base::Body::Object(Span { len, .. }) = transmit.body else {
                panic!("a datagram has a body")
            };
            if self.flying.len() < KEPT_MAX {
                self.flying.push((head, len));
            }
        }
        assert_eq!(self.receiver.poll_transmit(self.now), None);
        while self.sender.poll_event().is_some() {}
        while let Some(event) = self.receiver.poll_event() {
            if let ReceiverEvent::Message(arrived) = event {
                let before = self.delivered.insert(arrived.span.offset, arrived.block);
                assert!(
                    before < Some(arrived.block),
                    "{arrived:?} was delivered twice"
                );
                assert!(arrived.since <= self.now);
            }
        }
        let _ = (self.sender.poll_timeout(), self.receiver.poll_timeout());
    }
}

/// Most datagrams in flight.
const KEPT_MAX: usize = 4096;
