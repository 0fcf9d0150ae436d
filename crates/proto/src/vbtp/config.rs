//! What both sides of a transfer agree on.

use core::fmt;
use core::time::Duration;

use lighthaul_base::Rate;

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
    /// Bytes that the world adds to each datagram on the circuit: IP, UDP, seal. The vector's rates count them.
    pub overhead_len: u32,
    /// The stream that carries questions, reports and the tail.
    pub stream: u16,
    /// Bytes on the wire that the circuit's policer takes at once, by default 1 ms of the step's rate. The receiver
    /// ignores it.
    pub burst: Option<u32>,
    /// The part of the vector's rates that is this sender's, as numerator and denominator: lanes that send at the
    /// same time have parts that add up to one. The receiver ignores it.
    pub share: (u32, u32),
    /// How long an answer takes. The receiver ignores it.
    pub rtt: Duration,
    /// A few last resends that take less than this leave twice. The receiver ignores it.
    pub repeat: Duration,
    /// How long the receiver waits for late datagrams before it says that they are missing. The sender ignores it.
    pub settle: Duration,
    /// How often the receiver says what came, while something comes. The sender ignores it.
    pub ack_every: Duration,
    /// How many packets the sender may be ahead of the first one that is not known to have come, and how many resends
    /// may be under way.
    pub window: u32,
    /// Packets of a block: what came is said in whole blocks.
    pub block: u32,
    /// Ranges in each list of missing packets.
    pub losses_max: u32,
}

impl Config {
    /// Tells whether a transfer can be made of this.
    pub fn check(&self) -> Result<(), Misuse> {
        let around = u64::from(self.overhead_len) + HEAD_LEN as u64;
        self.cut()
            .check(DATAGRAM_BYTES_MAX.saturating_sub(around), PACKETS_MAX)
            .map_err(Misuse::Cut)?;
        let datagram_bytes = self.wire_bytes(self.packet_len);
        if self.burst.is_some_and(|burst| burst < datagram_bytes) {
            return Err(Misuse::Burst(datagram_bytes));
        }
        if self.share.0 == 0 || self.share.0 > self.share.1 {
            return Err(Misuse::Share);
        }
        if self.block == 0 || self.window < self.block.saturating_mul(2) {
            return Err(Misuse::Window);
        }
        if self.losses_max == 0 {
            return Err(Misuse::Losses);
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

    /// What a datagram with a body of `len` bytes costs on the circuit.
    pub const fn wire_bytes(&self, len: u32) -> u32 {
        self.overhead_len + HEAD_LEN as u32 + len
    }

    /// What a circuit has to carry for the object and a margin of so many per cent, headers included (section 4.3).
    pub fn booked_bytes(&self, margin_percent: u32) -> u64 {
        let heads = self.packets() * u64::from(self.wire_bytes(0));
        let bytes = u128::from(self.object_len + heads) * u128::from(100 + margin_percent);
        u64::try_from(bytes.div_ceil(100)).unwrap_or(u64::MAX)
    }

    /// A window in which losses do not stop a sender at `rate`: a packet that is lost k times comes k + 1 round trips late,
    /// and hardly one is lost seven times.
    pub fn window_for(rate: Rate, rtt: Duration, packet_len: u32) -> u32 {
        let time = rtt
            .saturating_mul(8)
            .saturating_add(Duration::from_millis(100));
        let packets = rate.bytes_in(time) / u64::from(packet_len.max(1));
        packets.clamp(WINDOW_MIN, WINDOW_MAX) as u32
    }
}

/// What cannot be made into a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// Packets of such a size, or so many, cannot be.
    Cut(cut::Misuse),
    /// A burst of less than a datagram of so many bytes.
    Burst(u32),
    /// A share of nothing, or of more than all.
    Share,
    /// A window of less than two blocks, or blocks of no packets.
    Window,
    /// No room for a loss.
    Losses,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut(misuse) => misuse.fmt(f),
            Self::Burst(bytes) => {
                write!(
                    f,
                    "a burst must hold one datagram, which has {bytes} bytes on the wire"
                )
            }
            Self::Share => write!(
                f,
                "a share is more than nothing and at most all of the rate"
            ),
            Self::Window => write!(f, "a window holds at least two blocks of packets"),
            Self::Losses => write!(f, "a list of losses has room for at least one"),
        }
    }
}

impl core::error::Error for Misuse {}

/// The most packets in one object: their tally has 128 MiB.
pub const PACKETS_MAX: u64 = 1 << 30;

const WINDOW_MIN: u64 = 1 << 10;
const WINDOW_MAX: u64 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: Config = Config {
        object_len: 10_001,
        packet_len: 1000,
        overhead_len: 28,
        stream: 0,
        burst: None,
        share: (1, 1),
        rtt: Duration::ZERO,
        repeat: Duration::ZERO,
        settle: Duration::ZERO,
        ack_every: Duration::ZERO,
        window: 64,
        block: 8,
        losses_max: 10,
    };

    #[test]
    fn a_booking_has_room_for_heads_and_a_margin() {
        // 11 heads of 36 bytes, and a tenth more
        assert_eq!(CONFIG.booked_bytes(0), 10_397);
        assert_eq!(CONFIG.booked_bytes(10), 11_437);
    }

    #[test]
    fn a_window_has_eight_round_trips_and_bounds() {
        let rtt = Duration::from_millis(100);
        let window = |mbps, rtt| Config::window_for(Rate::from_mbps(mbps), rtt, 1000);
        // 0.9 s of 125 packets a millisecond
        assert_eq!(window(1000, rtt), 112_500);
        assert_eq!(window(1, rtt), 1 << 10);
        assert_eq!(window(1_000_000, Duration::MAX), 1 << 24);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let with = |change: fn(&mut Config)| {
            let mut config = CONFIG;
            change(&mut config);
            config.check().unwrap_err()
        };
        assert_eq!(CONFIG.check(), Ok(()));
        let packet_len = |len| Misuse::Cut(cut::Misuse::PacketLen(len));
        assert_eq!(with(|c| c.packet_len = 65_500), packet_len(65_500));
        assert_eq!(with(|c| c.overhead_len = u32::MAX), packet_len(1000));
        assert!(matches!(with(|c| c.object_len = u64::MAX), Misuse::Cut(_)));
        assert_eq!(with(|c| c.burst = Some(1035)), Misuse::Burst(1036));
        assert_eq!(with(|c| c.share = (0, 1)), Misuse::Share);
        assert_eq!(with(|c| c.share = (3, 2)), Misuse::Share);
        assert_eq!(with(|c| c.block = 0), Misuse::Window);
        assert_eq!(with(|c| c.block = 33), Misuse::Window);
        assert_eq!(with(|c| c.losses_max = 0), Misuse::Losses);
    }
}
