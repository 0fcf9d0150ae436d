//! Parameters of a machine of any protocol, and the configuration of each protocol from them.
//!
//! Each side computes a [`Setup`] for each object, from the offer and the object's announcement. A
//! method for each protocol converts it to the protocol's configuration; the fixed parameters are
//! the constants at the end. [`Setup::check`] rejects parameters from a peer that no machine can
//! have. Lengths are in bytes.

use std::time::Duration;

use lighthaul_base::{Rate, Trc};
use lighthaul_proto::{rbudp, sabul, stripe, vbtp};

use super::learned::Learned;
use crate::protocol::Protocol;

/// Parameters of a machine of any protocol; each protocol uses some of them.
// fields: each protocol has parameters of its own
#[derive(Clone, Debug)]
pub struct Setup {
    /// Protocol that moves the object.
    pub protocol: Protocol,
    /// Number of the object.
    pub object: u64,
    /// Length of the object, in bytes.
    pub object_len: u64,
    /// Bytes of the object in each packet.
    pub packet_len: u32,
    /// Bytes that are added to each datagram on the wire.
    pub overhead_len: u32,
    /// Limit of the rate on the wire.
    pub rate: Rate,
    /// Rate of the path, or a rate to use instead.
    pub path_rate: Rate,
    /// True if the sender remembers `path_rate` of an earlier copy.
    pub is_remembered: bool,
    /// Stream of the messages that must arrive.
    pub stream: u16,
    /// Number of streams, after the stream of the lane, that share the load.
    pub streams: u16,
    /// Longest wait of the receiver for late datagrams.
    pub settle: Duration,
    /// Passes after the first that are shorter than this time are sent twice, so that a loss costs no further round
    /// trip.
    pub repeat: Duration,
    /// Round-trip time.
    pub rtt: Duration,
    /// Capacity of the circuit over time, by the sender's clock. Only senders that follow a circuit
    /// have one.
    pub trc: Option<Trc>,
}

impl Setup {
    /// Fails with the reason if the parameters suit no machine.
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
            layout: stripe::PacketLayout {
                object_len: self.object_len,
                packet_len: self.packet_len,
            },
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
            // the rest was measured with capacity that may belong to other flows
            Learned::Nothing | Learned::Width(_) | Learned::Socket(_) | Learned::Room(_) => {
                if self.is_remembered {
                    sabul::Memory::remembered(self.path_rate, self.rtt)
                } else {
                    sabul::Memory::measured(self.path_rate, self.rtt)
                }
            }
        };
        // enough for the published rules; the swift rules watch the queue, which has room. A limit far above the rate
        // must not make the window so long that it fills a long queue.
        let used = memory.rate.max(self.path_rate).scaled(2, 1);
        let time = (SYN + self.rtt + memory.longer.min(sabul::config::RTT_MAX)) * 2;
        let window = self.rate.min(used).bytes_in(time) / u64::from(self.packet_len.max(1));
        sabul::Config {
            framing: sabul::Framing {
                object_len: self.object_len,
                packet_len: self.packet_len,
                overhead_len: self.overhead_len,
            },
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
            framing: vbtp::Framing {
                object_len: self.object_len,
                packet_len: self.packet_len,
                overhead_len: self.overhead_len,
            },
            stream: self.stream,
            burst: None,
            share: (1, 1),
            rtt: self.rtt,
            settle: self.settle,
            ack_every: ACK_EVERY,
            window: vbtp::Config::window_for(self.rate, self.rtt, self.packet_len),
            block: BLOCK_PACKETS,
            losses_max: LOSSES_MAX,
        }
    }

    /// Returns the configuration of RBUDP.
    pub fn rbudp(&self) -> rbudp::Config {
        rbudp::Config {
            framing: rbudp::Framing {
                object_len: self.object_len,
                packet_len: self.packet_len,
                overhead_len: self.overhead_len,
            },
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

/// Control period of SABUL.
const SYN: Duration = Duration::from_millis(10);
/// Minimum of SABUL's flow window, in packets.
const WINDOW_MIN: u64 = 1 << 8;
/// Maximum of SABUL's flow window, in packets.
const WINDOW_MAX: u64 = 1 << 20;
/// Interval of the reports of a VBTP receiver.
const ACK_EVERY: Duration = Duration::from_millis(10);
/// Number of packets in a block of a VBTP receiver.
const BLOCK_PACKETS: u32 = 128;
/// Maximum number of gaps that a VBTP receiver remembers.
const LOSSES_MAX: u32 = 1 << 14;
/// Longest pause that a receiver of RBUDP+ may ask for.
const PAUSE_MAX: Duration = Duration::from_secs(2);
