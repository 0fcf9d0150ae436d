//! Receiver of the simulated TCP.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::time::Duration;

use lighthaul_base::{Body, Deadline, Endpoint, Instant, Message, Span, Transmit, Via};

use super::messages::{Ack, Data};

/// Longest delay of an acknowledgment.
const DELAY_MAX: Duration = Duration::from_millis(5);
/// Maximum number of packets that one acknowledgment covers.
const ACK_PACKETS: u32 = 2;

/// Receiver that acknowledges packets and accepts each of them once.
#[derive(Debug)]
pub struct Receiver {
    packet_len: u32,
    /// Bit of each packet that arrived.
    arrived: Vec<u64>,
    /// Acknowledgment that waits for another packet.
    open: Option<(Ack, Instant)>,
    ready: VecDeque<Ack>,
    received: u64,
}

impl Receiver {
    /// Returns a receiver of packets of `packet_len` bytes.
    pub const fn new(packet_len: u32) -> Self {
        Self {
            packet_len,
            arrived: Vec::new(),
            open: None,
            ready: VecDeque::new(),
            received: 0,
        }
    }

    /// Returns the packets that arrived, each counted once.
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Marks a packet as arrived. Returns true if it is new.
    fn mark(&mut self, packet: u32) -> bool {
        let (word, bit) = ((packet / 64) as usize, 1 << (packet % 64));
        if word >= self.arrived.len() {
            self.arrived.resize(word + 1, 0);
        }
        let is_new = self.arrived[word] & bit == 0;
        self.arrived[word] |= bit;
        self.received += u64::from(is_new);
        is_new
    }

    fn acknowledge(&mut self, now: Instant, transmission: u32) {
        let single = Ack {
            first: transmission,
            last: transmission,
        };
        let Some((open, since)) = self.open.take() else {
            self.open = Some((single, now));
            return;
        };
        if transmission != open.last + 1 {
            // a gap is reported at once
            self.ready.push_back(open);
            self.ready.push_back(single);
            return;
        }
        let grown = Ack {
            last: transmission,
            ..open
        };
        if grown.last - grown.first + 1 >= ACK_PACKETS {
            self.ready.push_back(grown);
        } else {
            self.open = Some((grown, since));
        }
    }
}

impl Endpoint for Receiver {
    type Event = Infallible;

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        let data = Data::from_head(message.head)?;
        self.acknowledge(now, data.transmission);
        let offset = u64::from(data.packet) * u64::from(self.packet_len);
        self.mark(data.packet)
            .then_some(Span::new(offset, message.len))
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some((ack, since)) = self.open
            && now >= since + DELAY_MAX
        {
            self.open = None;
            self.ready.push_back(ack);
        }
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<Transmit> {
        let ack = self.ready.pop_front()?;
        Some(Transmit {
            via: Via::Datagram,
            head: ack.to_head(),
            body: Body::None,
        })
    }

    fn poll_event(&mut self) -> Option<Infallible> {
        None
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.open.map(|(_, since)| Deadline {
            at: since + DELAY_MAX,
            why: "delayed acknowledgment",
        })
    }
}
