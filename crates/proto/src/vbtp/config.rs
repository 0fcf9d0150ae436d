//! Parameters on which both sides of a transfer agree.
//!
//! A [`Config`] has the lengths of object and packets ([`Framing`]), times, and bounds of memory.
//! The rates are not here: they come with the TRC vector of the circuit. [`Config::check`] refuses
//! values that the machines cannot run with. [`Config::booked_bytes`] returns the bytes to reserve
//! for an object, and [`Config::window_for`] a window for a rate. Sections are those of the VBLS
//! paper.

use core::fmt;
use core::time::Duration;

use lighthaul_base::Rate;
use lighthaul_parts::packet_layout;

use super::wire::HEAD_LEN;

/// Parameters of one transfer. They are the same on both sides unless a field says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Lengths of the object and of its packets.
    pub framing: Framing,
    /// Stream of questions, reports and the tail.
    pub stream: u16,
    /// Burst in bytes that the circuit's policer accepts; the default is 1 ms at the step's rate. The receiver
    /// ignores it.
    pub burst: Option<u32>,
    /// This sender's share of the vector's rates, as numerator and denominator. The shares of senders that run at the
    /// same time (lanes) add up to one. The receiver ignores it.
    pub share: (u32, u32),
    /// Time from a question until its answer arrives. The receiver ignores it.
    pub rtt: Duration,
    /// Time for which the receiver waits for reordered datagrams before it reports them missing. The sender ignores
    /// it.
    pub settle: Duration,
    /// Interval of the receiver's ACKs while packets arrive. The sender ignores it.
    pub ack_every: Duration,
    /// Maximum distance in packets from the first unacknowledged packet to the newest, and maximum number of resends
    /// in flight.
    pub window: u32,
    /// Number of packets in a block. ACKs cover whole blocks.
    pub block: u32,
    /// Maximum number of ranges in each list of missing packets.
    pub losses_max: u32,
}

/// Lengths of an object and of its packets, with the header of this protocol.
pub type Framing = lighthaul_parts::Framing<HEAD_LEN>;

impl Config {
    /// Fails if the parameters of the transfer are invalid.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.framing
            .check(PACKETS_MAX)
            .map_err(ConfigError::Packets)?;
        let datagram_bytes = self.framing.wire_bytes(self.framing.packet_len);
        if self.burst.is_some_and(|burst| burst < datagram_bytes) {
            return Err(ConfigError::Burst(datagram_bytes));
        }
        if self.share.0 == 0 || self.share.0 > self.share.1 {
            return Err(ConfigError::Share);
        }
        if self.block == 0 || self.window < self.block.saturating_mul(2) {
            return Err(ConfigError::Window);
        }
        if self.losses_max == 0 {
            return Err(ConfigError::Losses);
        }
        Ok(())
    }

    /// Returns the bytes that a circuit must carry for the object, headers included, plus a margin in percent
    /// (section 4.3).
    pub fn booked_bytes(&self, margin_percent: u32) -> u64 {
        let heads = self.framing.packets() * u64::from(self.framing.wire_bytes(0));
        let bytes = u128::from(self.framing.object_len + heads) * u128::from(100 + margin_percent);
        u64::try_from(bytes.div_ceil(100)).unwrap_or(u64::MAX)
    }

    /// Returns a window in which losses do not stall a sender at `rate`. A packet lost k times arrives k + 1 round
    /// trips late, and the window covers seven losses. The result is in packets.
    pub fn window_for(rate: Rate, rtt: Duration, packet_len: u32) -> u32 {
        let time = rtt
            .saturating_mul(8)
            .saturating_add(Duration::from_millis(100));
        let packets = rate.bytes_in(time) / u64::from(packet_len.max(1));
        packets.clamp(WINDOW_MIN, WINDOW_MAX) as u32
    }
}

/// Reason why a [`Config`] is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The packets are too long, empty or too many.
    Packets(packet_layout::PacketLayoutError),
    /// The burst is shorter than a datagram, whose length in bytes is given.
    Burst(u32),
    /// The share is zero or more than one.
    Share,
    /// The window is shorter than two blocks, or the blocks are empty.
    Window,
    /// The loss lists have no capacity.
    Losses,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(error) => error.fmt(f),
            Self::Burst(bytes) => {
                write!(
                    f,
                    "a burst must hold one datagram, which has {bytes} bytes on the wire"
                )
            }
            Self::Share => write!(f, "a share must be above zero and at most one"),
            Self::Window => write!(f, "a window must hold at least two blocks of packets"),
            Self::Losses => write!(f, "a loss list must hold at least one range"),
        }
    }
}

impl core::error::Error for ConfigError {}

/// Maximum number of packets in one object. Their tally has 1 MiB.
pub const PACKETS_MAX: u64 = 1 << 23;

const WINDOW_MIN: u64 = 1 << 10;
const WINDOW_MAX: u64 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing_cases::{assert_checks_framing, eleven_packets};

    const CONFIG: Config = Config {
        framing: eleven_packets(),
        stream: 0,
        burst: None,
        share: (1, 1),
        rtt: Duration::ZERO,
        settle: Duration::ZERO,
        ack_every: Duration::ZERO,
        window: 64,
        block: 8,
        losses_max: 10,
    };

    #[test]
    fn booked_bytes_include_heads_and_margin() {
        // 11 heads of 36 bytes, plus a margin of a tenth
        assert_eq!(CONFIG.booked_bytes(0), 10_397);
        assert_eq!(CONFIG.booked_bytes(10), 11_437);
    }

    #[test]
    fn window_covers_eight_round_trips_within_bounds() {
        let rtt = Duration::from_millis(100);
        let window = |mbps, rtt| Config::window_for(Rate::from_mbps(mbps), rtt, 1000);
        // 0.9 s at 125 packets per millisecond
        assert_eq!(window(1000, rtt), 112_500);
        assert_eq!(window(1, rtt), 1 << 10);
        assert_eq!(window(1_000_000, Duration::MAX), 1 << 24);
    }

    #[test]
    fn invalid_config_is_refused() {
        let refused = |config: Config| config.check().unwrap_err();
        assert_eq!(
            refused(Config {
                burst: Some(1035),
                ..CONFIG
            }),
            ConfigError::Burst(1036)
        );
        assert_eq!(
            refused(Config {
                share: (0, 1),
                ..CONFIG
            }),
            ConfigError::Share
        );
        assert_eq!(
            refused(Config {
                share: (3, 2),
                ..CONFIG
            }),
            ConfigError::Share
        );
        assert_eq!(refused(Config { block: 0, ..CONFIG }), ConfigError::Window);
        assert_eq!(
            refused(Config {
                block: 33,
                ..CONFIG
            }),
            ConfigError::Window
        );
        assert_eq!(
            refused(Config {
                losses_max: 0,
                ..CONFIG
            }),
            ConfigError::Losses
        );
    }

    #[test]
    fn framing_is_checked() {
        let check = |framing| Config { framing, ..CONFIG }.check();
        assert_checks_framing(CONFIG.framing, check, ConfigError::Packets);
    }
}
