//! What both sides of a transfer agree on.

use core::fmt;
use core::time::Duration;

use lighthaul_base::{Rate, Span};

use super::rate::Mode;
use super::wire::HEAD_LEN;

/// One transfer; the same on both sides except where a field says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes of the object.
    pub object_len: u64,
    /// Bytes of the object in a packet; the last may have fewer.
    pub packet_len: u32,
    /// Bytes that the world adds to each datagram on the wire: IP, UDP, seal. The pacer counts
    /// them.
    pub overhead_len: u32,
    /// By which rules the rate changes. The receiver ignores it.
    pub mode: Mode,
    /// Where the sender begins; the receiver takes the round-trip time from it.
    pub memory: Memory,
    /// The rate never exceeds this. The receiver ignores it.
    pub rate_max: Rate,
    /// Bytes that may leave at once, by default 1 ms of the rate. The receiver ignores it.
    pub burst: Option<u32>,
    /// The stream that carries feedback.
    pub stream: u16,
    /// The largest flow window, in packets: a good one is the path's rate times the sum of SYN interval
    /// and round-trip time (section 3.4). The receiver ignores it.
    pub window_max: u32,
    /// The most ranges in a loss list.
    pub ranges_max: u32,
}

/// What a sender has learnt of a path, for the next object's sender to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bits a second on the wire, headers included; [`Rate::UNLIMITED`] never waits, as on a stream.
    pub rate: Rate,
    /// The round-trip time.
    pub rtt: Duration,
    /// Whether a loss has been seen: the flow window no longer grows.
    pub has_lost: bool,
    /// Whether the start-up is over ([`Mode::Swift`]).
    pub has_started: bool,
    /// The least difference of both sides' clocks ([`Mode::Swift`]).
    pub delay_min: Option<u32>,
}

impl Memory {
    /// Of a path of which only this is known.
    pub const fn new(rate: Rate, rtt: Duration) -> Self {
        Self {
            rate,
            rtt,
            has_lost: false,
            has_started: false,
            delay_min: None,
        }
    }
}

impl Config {
    /// Tells whether a transfer can be made of this.
    pub fn check(&self) -> Result<(), Misuse> {
        if self.packet_len == 0 || self.datagram_bytes() > DATAGRAM_BYTES_MAX {
            return Err(Misuse::PacketLen(self.packet_len));
        }
        if self.packets() > PACKETS_MAX {
            return Err(Misuse::Packets(self.packets()));
        }
        if self.burst == Some(0) {
            return Err(Misuse::Burst);
        }
        if self.window_max == 0 || self.ranges_max == 0 {
            return Err(Misuse::Bound);
        }
        if self.memory.rtt > RTT_MAX {
            return Err(Misuse::Rtt(self.memory.rtt));
        }
        Ok(())
    }

    /// How many packets the object has.
    pub fn packets(&self) -> u64 {
        self.object_len.div_ceil(u64::from(self.packet_len.max(1)))
    }

    /// Where the body of packet `number` belongs; the number must be below [`Config::packets`].
    pub fn span(&self, number: u64) -> Span {
        let offset = number * u64::from(self.packet_len);
        debug_assert!(offset < self.object_len);
        let len = u64::from(self.packet_len).min(self.object_len - offset);
        Span::new(offset, len as u32)
    }

    /// What a datagram with a body of `len` bytes costs on the wire.
    pub const fn wire_bytes(&self, len: u32) -> u32 {
        self.overhead_len + HEAD_LEN as u32 + len
    }

    const fn datagram_bytes(&self) -> u64 {
        self.overhead_len as u64 + HEAD_LEN as u64 + self.packet_len as u64
    }
}

/// What cannot be made into a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// A packet of no bytes, or more than a datagram can carry.
    PacketLen(u32),
    /// More packets than [`PACKETS_MAX`].
    Packets(u64),
    /// A burst of no bytes.
    Burst,
    /// A flow window or a loss list that holds nothing.
    Bound,
    /// A round-trip time beyond [`RTT_MAX`].
    Rtt(Duration),
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PacketLen(len) => write!(f, "a packet cannot have {len} bytes"),
            Self::Packets(packets) => {
                write!(
                    f,
                    "{packets} packets are more than {PACKETS_MAX} in one object"
                )
            }
            Self::Burst => write!(f, "a burst has at least one byte"),
            Self::Bound => write!(f, "a flow window and a loss list hold at least one entry"),
            Self::Rtt(rtt) => write!(f, "a round trip of {rtt:?} is more than {RTT_MAX:?}"),
        }
    }
}

impl core::error::Error for Misuse {}

/// The most packets in one object.
pub const PACKETS_MAX: u64 = 1 << 30;
/// The longest round-trip time that is believed.
pub const RTT_MAX: Duration = Duration::from_secs(10);
/// SABUL's control period: rate control and ACKs happen once in each (section 3.5).
pub const SYN: Duration = Duration::from_millis(10);

/// The largest IP datagram.
const DATAGRAM_BYTES_MAX: u64 = 65_535;

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: Config = Config {
        object_len: 10_001,
        packet_len: 1000,
        overhead_len: 28,
        mode: Mode::Paper,
        memory: Memory::new(Rate::from_mbps(1), Duration::from_millis(10)),
        rate_max: Rate::UNLIMITED,
        burst: None,
        stream: 0,
        window_max: 100,
        ranges_max: 10,
    };

    #[test]
    fn packets_cover_the_object_exactly() {
        assert_eq!(CONFIG.check(), Ok(()));
        assert_eq!(CONFIG.packets(), 11);
        assert_eq!(CONFIG.span(9), Span::new(9000, 1000));
        assert_eq!(CONFIG.span(10), Span::new(10_000, 1));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let with = |change: fn(&mut Config)| {
            let mut config = CONFIG;
            change(&mut config);
            config.check()
        };
        let refused = [
            (with(|c| c.packet_len = 0), Misuse::PacketLen(0)),
            (with(|c| c.packet_len = 65_500), Misuse::PacketLen(65_500)),
            (with(|c| c.overhead_len = u32::MAX), Misuse::PacketLen(1000)),
            (
                with(|c| c.object_len = u64::MAX),
                Misuse::Packets(u64::MAX.div_ceil(1000)),
            ),
            (with(|c| c.burst = Some(0)), Misuse::Burst),
            (with(|c| c.window_max = 0), Misuse::Bound),
            (with(|c| c.ranges_max = 0), Misuse::Bound),
            (
                with(|c| c.memory.rtt = Duration::from_secs(11)),
                Misuse::Rtt(Duration::from_secs(11)),
            ),
        ];
        for (outcome, misuse) in refused {
            assert_eq!(outcome, Err(misuse));
        }
    }
}
