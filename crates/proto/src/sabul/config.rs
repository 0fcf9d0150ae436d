//! What both sides of a transfer agree on.

use core::fmt;
use core::time::Duration;

use lighthaul_base::Rate;

use super::rate::Mode;
use super::wire::HEAD_LEN;
use crate::parts::Cut;
use crate::parts::cut::{self, DATAGRAM_BYTES_MAX};

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
        let around = u64::from(self.overhead_len) + HEAD_LEN as u64;
        self.cut()
            .check(DATAGRAM_BYTES_MAX.saturating_sub(around), PACKETS_MAX)
            .map_err(Misuse::Cut)?;
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

    /// The object as its packets cut it.
    pub const fn cut(&self) -> Cut {
        Cut {
            object_len: self.object_len,
            packet_len: self.packet_len,
        }
    }

    /// How many packets the object has.
    pub fn packets(&self) -> u64 {
        self.cut().packets()
    }

    /// What a datagram with a body of `len` bytes costs on the wire.
    pub const fn wire_bytes(&self, len: u32) -> u32 {
        self.overhead_len + HEAD_LEN as u32 + len
    }
}

/// What cannot be made into a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// Packets of such a size, or so many, cannot be.
    Cut(cut::Misuse),
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
            Self::Cut(misuse) => misuse.fmt(f),
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
    fn what_cannot_be_is_refused() {
        let with = |change: fn(&mut Config)| {
            let mut config = CONFIG;
            change(&mut config);
            config.check().unwrap_err()
        };
        assert_eq!(CONFIG.check(), Ok(()));
        let packet_len = |len| Misuse::Cut(cut::Misuse::PacketLen(len));
        assert_eq!(with(|c| c.packet_len = 65_496), packet_len(65_496));
        assert_eq!(with(|c| c.overhead_len = u32::MAX), packet_len(1000));
        assert!(matches!(with(|c| c.object_len = u64::MAX), Misuse::Cut(_)));
        assert_eq!(with(|c| c.burst = Some(0)), Misuse::Burst);
        assert_eq!(with(|c| c.window_max = 0), Misuse::Bound);
        assert_eq!(with(|c| c.ranges_max = 0), Misuse::Bound);
        let long = Duration::from_secs(11);
        let slow = |c: &mut Config| c.memory.rtt = Duration::from_secs(11);
        assert_eq!(with(slow), Misuse::Rtt(long));
    }
}
