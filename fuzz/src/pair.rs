//! Pair of machines with messages in flight and calls read from octets, for RBUDP, SABUL and VBTP.

use std::collections::BTreeSet;
use std::time::Duration;

use lighthaul_base::{Endpoint, Instant, Load, Message, Rate, Reader, Span, Transmit, Via};
use lighthaul_parts::Framing;

/// Additional call of one protocol. Returns none when the octets end.
pub type Call<S, R> = fn(&mut Pair<S, R>, &mut Reader<'_>) -> Option<()>;

/// Machines of one transfer, called as the contract of `Endpoint` requires.
///
/// No two datagrams may have the same first eight octets, and no byte may be written twice.
pub struct Pair<S, R> {
    pub now: Instant,
    pub sender: S,
    pub receiver: R,
    object_len: u64,
    to_receiver: Vec<Transmit>,
    to_sender: Vec<Transmit>,
    nonces: BTreeSet<Vec<u8>>,
    placed: BTreeSet<Span>,
}

impl<S: Endpoint, R: Endpoint> Pair<S, R> {
    pub fn new(object_len: u64, sender: S, receiver: R) -> Self {
        Self {
            now: Instant::ZERO,
            sender,
            receiver,
            object_len,
            to_receiver: Vec::new(),
            to_sender: Vec::new(),
            nonces: BTreeSet::new(),
            placed: BTreeSet::new(),
        }
    }

    /// Makes the calls in the octets, with the protocol's `own` calls after the general ones. Polls
    /// the machines and calls `check` after each call.
    pub fn run(mut self, mut reader: Reader<'_>, own: &[Call<S, R>], check: fn(&S, &R)) {
        loop {
            self.drain();
            check(&self.sender, &self.receiver);
            if self.call(&mut reader, own).is_none() {
                return;
            }
        }
    }

    fn call(&mut self, reader: &mut Reader<'_>, own: &[Call<S, R>]) -> Option<()> {
        let nth = usize::from(reader.u8().ok()?) % (12 + own.len());
        match nth {
            0 => {
                self.now += Duration::from_nanos(u64::from(reader.u32().ok()?));
                self.sender.handle_timeout(self.now);
                self.receiver.handle_timeout(self.now);
            }
            1 => {
                let rate = Rate::from_bps(reader.u64().ok()?)?;
                self.sender.handle_rate(self.now, rate);
            }
            2 => {
                let [backlog_bytes, backlog_bytes_max] = reader.array::<2>().ok()?.map(u64::from);
                let load = Load {
                    backlog_bytes,
                    backlog_bytes_max,
                    ..Load::default()
                };
                self.receiver.handle_load(self.now, load);
            }
            3 => self.hand_receiver(read(Via::Datagram, reader)?),
            4 => self.hand_receiver(read(Via::Stream(1), reader)?),
            5 => self.hand_sender(read(Via::Stream(1), reader)?),
            6 => self.hand_sender(read(Via::Datagram, reader)?),
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
            11 => self.deliver_left(),
            _ => own[nth - 12](self, reader)?,
        }
        Some(())
    }

    /// Delivers one message of the sender. A datagram is kept and may be delivered again.
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
        self.hand_receiver(Message {
            via: transmit.via,
            head: &transmit.octets(),
            len: transmit.body.object_len(),
        });
    }

    fn deliver_left(&mut self) {
        if self.to_sender.is_empty() {
            return;
        }
        let transmit = self.to_sender.remove(0);
        self.hand_sender(Message {
            via: transmit.via,
            head: &transmit.octets(),
            len: transmit.body.object_len(),
        });
    }

    fn hand_receiver(&mut self, message: Message<'_>) {
        if let Some(span) = self.receiver.handle_message(self.now, message) {
            assert!(span.len == message.len && span.end() <= self.object_len);
            assert!(self.placed.insert(span), "{span:?} was placed twice");
        }
    }

    fn hand_sender(&mut self, message: Message<'_>) {
        assert_eq!(self.sender.handle_message(self.now, message), None);
    }

    /// Polls both machines, as the contract of `Endpoint` requires after each call.
    fn drain(&mut self) {
        while let Some(transmit) = self.sender.poll_transmit(self.now) {
            if transmit.via == Via::Datagram {
                let nonce = transmit.head.as_slice()[..8].to_vec();
                assert!(
                    self.nonces.insert(nonce),
                    "the first eight octets were used twice"
                );
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
    }
}

/// Reads a pair of machines with `begin`, and makes the calls that the rest of the octets describes; see [`Pair::run`].
pub fn run<S: Endpoint, R: Endpoint>(
    octets: &[u8],
    begin: fn(&mut Reader<'_>) -> Option<Pair<S, R>>,
    own: &[Call<S, R>],
    check: fn(&S, &R),
) {
    let mut reader = Reader::new(octets);
    if let Some(pair) = begin(&mut reader) {
        pair.run(reader, own, check);
    }
}

/// Reads machines with `begin`, and makes calls with `call` until the octets end.
pub fn call_all<P>(
    octets: &[u8],
    begin: fn(&mut Reader<'_>) -> Option<P>,
    call: fn(&mut P, &mut Reader<'_>) -> Option<()>,
) {
    let mut reader = Reader::new(octets);
    let Some(mut machines) = begin(&mut reader) else {
        return;
    };
    while let Some(()) = call(&mut machines, &mut reader) {}
}

/// Reads the lengths of an object, of its packets, and of what is added to them.
pub fn framing<const HEAD_LEN: usize>(reader: &mut Reader<'_>) -> Option<Framing<HEAD_LEN>> {
    Some(Framing {
        object_len: u64::from(reader.u16().ok()?),
        packet_len: u32::from(reader.u16().ok()?),
        overhead_len: u32::from(reader.u8().ok()?),
    })
}

/// Reads a message with a header of up to 255 octets.
fn read<'a>(via: Via, reader: &mut Reader<'a>) -> Option<Message<'a>> {
    let len = u32::from(reader.u16().ok()?);
    let octets = usize::from(reader.u8().ok()?);
    let head = reader.take(octets).ok()?;
    Some(Message { via, head, len })
}

/// Most messages in flight.
const KEPT_MAX: usize = 4096;
