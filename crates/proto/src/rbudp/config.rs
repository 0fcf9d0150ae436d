//! What both sides of a transfer agree on.

use core::fmt;
use core::time::Duration;

use lighthaul_base::{Rate, Span};

use super::feedback::FeedbackConfig;
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
    /// Bits a second on the wire, headers included. The receiver needs it for `feedback` alone.
    pub rate: Rate,
    /// Bytes that may leave at once, by default 1 ms of the rate. The receiver ignores it.
    pub burst: Option<u32>,
    /// The stream that carries done signals and tallies.
    pub stream: u16,
    /// How long the receiver waits for late datagrams after a done signal. The sender ignores it.
    pub settle: Duration,
    /// A blast after the first that takes less than this leaves twice, since its loss would cost a
    /// round more; zero, as the paper has it, never. The receiver ignores it.
    pub repeat: Duration,
    /// Pauses while others have the receiver's processor: with this it is RBUDP+.
    pub feedback: Option<FeedbackConfig>,
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
        if self.feedback.is_some_and(|feedback| !feedback.is_sane()) {
            return Err(Misuse::Feedback);
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
    /// Pauses of no time, or of more than ten seconds; a way of more than a minute.
    Feedback,
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
            Self::Feedback => write!(
                f,
                "a pause lasts up to ten seconds, and is asked for within a minute"
            ),
        }
    }
}

impl core::error::Error for Misuse {}

/// The most packets in one object: their tally has 128 MiB.
pub const PACKETS_MAX: u64 = 1 << 30;

/// The largest IP datagram.
const DATAGRAM_BYTES_MAX: u64 = 65_535;

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: Config = Config {
        object_len: 10_001,
        packet_len: 1000,
        overhead_len: 28,
        rate: Rate::UNLIMITED,
        burst: None,
        stream: 0,
        settle: Duration::ZERO,
        repeat: Duration::ZERO,
        feedback: None,
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
        for (config, misuse) in [
            (
                Config {
                    packet_len: 0,
                    ..CONFIG
                },
                Misuse::PacketLen(0),
            ),
            (
                Config {
                    packet_len: 65_500,
                    ..CONFIG
                },
                Misuse::PacketLen(65_500),
            ),
            (
                Config {
                    overhead_len: u32::MAX,
                    ..CONFIG
                },
                Misuse::PacketLen(1000),
            ),
            (
                Config {
                    burst: Some(0),
                    ..CONFIG
                },
                Misuse::Burst,
            ),
            (
                Config {
                    feedback: Some(FeedbackConfig {
                        rtt: Duration::ZERO,
                        pause_max: Duration::MAX,
                    }),
                    ..CONFIG
                },
                Misuse::Feedback,
            ),
            (
                Config {
                    object_len: u64::MAX,
                    ..CONFIG
                },
                Misuse::Packets(u64::MAX.div_ceil(1000)),
            ),
        ] {
            assert_eq!(config.check(), Err(misuse));
        }
    }
}
