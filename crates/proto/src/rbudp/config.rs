//! What both sides of a transfer agree on.

use core::fmt;
use core::time::Duration;

use lighthaul_base::Rate;

use super::feedback::FeedbackConfig;
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
        let around = u64::from(self.overhead_len) + HEAD_LEN as u64;
        self.cut()
            .check(DATAGRAM_BYTES_MAX.saturating_sub(around), PACKETS_MAX)
            .map_err(Misuse::Cut)?;
        if self.burst == Some(0) {
            return Err(Misuse::Burst);
        }
        if self.feedback.is_some_and(|feedback| !feedback.is_sane()) {
            return Err(Misuse::Feedback);
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

    /// Whether the sender waits till the receiver runs: where that costs less than a hundredth of the
    /// transfer.
    pub(super) fn awaits_word(&self, feedback: FeedbackConfig) -> bool {
        feedback.rtt * 100 < self.rate.time_for(self.object_len)
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
    /// Pauses of no time, or of more than ten seconds; a way of more than a minute.
    Feedback,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut(misuse) => misuse.fmt(f),
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
        assert_eq!(with(|c| c.burst = Some(0)), Misuse::Burst);
        let endless = |c: &mut Config| {
            c.feedback = Some(FeedbackConfig {
                rtt: Duration::ZERO,
                pause_max: Duration::MAX,
            });
        };
        assert_eq!(with(endless), Misuse::Feedback);
    }
}
