//! What a machine is made of, whatever its protocol, and each protocol's parameters from it.

use std::time::Duration;

use lighthaul_base::{Rate, Trc};
use lighthaul_proto::{rbudp, sabul, stripe, vbtp};

use super::learned::Learned;
use crate::protocol::Protocol;

/// What a machine is made of, whatever its protocol; each takes what it needs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What moves the object.
    pub protocol: Protocol,
    /// The object's number.
    pub object: u64,
    /// Bytes of the object.
    pub object_len: u64,
    /// Bytes of the object in a packet.
    pub packet_len: u32,
    /// Bytes that the world adds to each datagram on the wire.
    pub overhead_len: u32,
    /// Bits a second on the wire.
    pub rate: Rate,
    /// The stream of what must arrive.
    pub stream: u16,
    /// How many streams behind it share the load.
    pub streams: u16,
    /// How long the receiver waits for stragglers.
    pub settle: Duration,
    /// What takes less than this is repeated rather than asked about.
    pub repeat: Duration,
    /// There and back.
    pub rtt: Duration,
    /// What the circuit carries when, by the sender's clock; only senders that follow it have one.
    pub trc: Option<Trc>,
}

impl Setup {
    /// Tells why no machine can be made of this.
    pub fn check(&self) -> Result<(), String> {
        match self.protocol {
            Protocol::Rbudp | Protocol::RbudpPlus => {
                self.rbudp().check().map_err(|error| error.to_string())
            }
            Protocol::Tcp | Protocol::Ptcp => {
                self.stripe().check().map_err(|error| error.to_string())
            }
            Protocol::Vbtp => self.vbtp().check().map_err(|error| error.to_string()),
            Protocol::Sabul | Protocol::SabulSwift => {
                let config = self.sabul(Learned::Nothing);
                config.check().map_err(|error| error.to_string())
            }
        }
    }

    pub(super) const fn stripe(&self) -> stripe::Config {
        stripe::Config {
            object_len: self.object_len,
            packet_len: self.packet_len,
            rate: self.rate,
            stream: self.stream,
            streams: self.streams,
        }
    }

    pub(super) fn sabul(&self, learned: Learned) -> sabul::Config {
        let mode = if self.protocol == Protocol::SabulSwift {
            sabul::Mode::Swift
        } else {
            sabul::Mode::Paper
        };
        let memory = match learned {
            Learned::Path(memory) => memory,
            // what was measured may be others' as well
            Learned::Nothing | Learned::Width(_) | Learned::Socket(_) | Learned::Room(_) => {
                sabul::Memory::new(self.rate.scaled(1, 2), self.rtt)
            }
        };
        // a good one for the paper's rules; the others judge by the queue, for which there is room
        let window = self.rate.bytes_in((SYN + self.rtt) * 2) / u64::from(self.packet_len.max(1));
        sabul::Config {
            object_len: self.object_len,
            packet_len: self.packet_len,
            overhead_len: self.overhead_len,
            mode,
            memory,
            rate_max: self.rate,
            burst: None,
            stream: self.stream,
            window_max: window.clamp(WINDOW_MIN, WINDOW_MAX) as u32,
            ranges_max: LOSSES_MAX,
        }
    }

    pub(super) fn vbtp(&self) -> vbtp::Config {
        vbtp::Config {
            object_len: self.object_len,
            packet_len: self.packet_len,
            overhead_len: self.overhead_len,
            stream: self.stream,
            burst: None,
            share: (1, 1),
            rtt: self.rtt,
            repeat: self.repeat,
            settle: self.settle,
            ack_every: ACK_EVERY,
            window: vbtp::Config::window_for(self.rate, self.rtt, self.packet_len),
            block: BLOCK_PACKETS,
            losses_max: LOSSES_MAX,
        }
    }

    /// RBUDP's parameters.
    pub fn rbudp(&self) -> rbudp::Config {
        rbudp::Config {
            object_len: self.object_len,
            packet_len: self.packet_len,
            overhead_len: self.overhead_len,
            rate: self.rate,
            burst: None,
            stream: self.stream,
            settle: self.settle,
            repeat: self.repeat,
            feedback: (self.protocol == Protocol::RbudpPlus).then_some(rbudp::FeedbackConfig {
                rtt: self.rtt,
                pause_max: PAUSE_MAX,
            }),
        }
    }
}

/// SABUL's control period, and what its flow window is held to.
const SYN: Duration = Duration::from_millis(10);
const WINDOW_MIN: u64 = 1 << 8;
const WINDOW_MAX: u64 = 1 << 20;
/// How often a VBTP receiver says what came, the packets of its blocks, and how many gaps it keeps in mind.
const ACK_EVERY: Duration = Duration::from_millis(10);
const BLOCK_PACKETS: u32 = 128;
const LOSSES_MAX: u32 = 1 << 14;
/// A receiving host that is away for longer gets no longer pauses.
const PAUSE_MAX: Duration = Duration::from_secs(2);
