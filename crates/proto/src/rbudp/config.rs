//! Parameters on which both sides of a transfer agree.

use core::fmt;
use core::time::Duration;

use lighthaul_base::Rate;
use lighthaul_parts::packet_layout;

use super::pause::FeedbackConfig;
use super::wire::HEAD_LEN;

/// Parameters of one transfer. They are the same on both sides unless a field says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Lengths of the object and of its packets.
    pub framing: Framing,
    /// Rate on the wire, headers included. The receiver needs it only for `feedback`.
    pub rate: Rate,
    /// Maximum burst in bytes; the default is 1 ms at the rate. The receiver ignores it.
    pub burst: Option<u32>,
    /// Stream of done signals and tallies.
    pub stream: u16,
    /// Time for which the receiver waits for reordered datagrams after a done signal. The sender ignores it.
    pub settle: Duration,
    /// Blasts after the first that are shorter than this time are sent twice, since a loss would cost another round
    /// trip. Zero, as in the paper, disables this. The receiver ignores it.
    pub repeat: Duration,
    /// Pauses while the receiver is descheduled. If set, the protocol is RBUDP+.
    pub feedback: Option<FeedbackConfig>,
}

/// Lengths of an object and of its packets, with the header of this protocol.
pub type Framing = lighthaul_parts::Framing<HEAD_LEN>;

impl Config {
    /// Fails if the parameters of the transfer are invalid.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.framing
            .check(PACKETS_MAX)
            .map_err(ConfigError::Packets)?;
        if self.burst == Some(0) {
            return Err(ConfigError::Burst);
        }
        if self.feedback.is_some_and(|feedback| !feedback.is_sane()) {
            return Err(ConfigError::Feedback);
        }
        Ok(())
    }

    /// True if the sender waits for the receiver's first message, which it does if that costs under 1/100 of the
    /// transfer time.
    pub(super) fn awaits_first_message(&self, feedback: FeedbackConfig) -> bool {
        feedback.rtt * 100 < self.rate.time_for(self.framing.object_len)
    }
}

/// Reason why a [`Config`] is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The packets are too long, empty or too many.
    Packets(packet_layout::PacketLayoutError),
    /// The burst is zero.
    Burst,
    /// The pauses have no length or exceed ten seconds, or the round-trip time exceeds a minute.
    Feedback,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(error) => error.fmt(f),
            Self::Burst => write!(f, "a burst must have at least one byte"),
            Self::Feedback => write!(
                f,
                "a pause must last up to ten seconds, at a round-trip time of up to a minute"
            ),
        }
    }
}

impl core::error::Error for ConfigError {}

/// Maximum number of packets in one object. Their tally has 1 MiB.
pub const PACKETS_MAX: u64 = 1 << 23;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing_cases::{assert_checks_framing, eleven_packets};

    const CONFIG: Config = Config {
        framing: eleven_packets(),
        rate: Rate::UNLIMITED,
        burst: None,
        stream: 0,
        settle: Duration::ZERO,
        repeat: Duration::ZERO,
        feedback: None,
    };

    #[test]
    fn invalid_config_is_refused() {
        let refused = |config: Config| config.check().unwrap_err();
        assert_eq!(
            refused(Config {
                burst: Some(0),
                ..CONFIG
            }),
            ConfigError::Burst
        );
        let feedback = Some(FeedbackConfig {
            rtt: Duration::ZERO,
            pause_max: Duration::MAX,
        });
        let endless = Config { feedback, ..CONFIG };
        assert_eq!(refused(endless), ConfigError::Feedback);
    }

    #[test]
    fn framing_is_checked() {
        let check = |framing| Config { framing, ..CONFIG }.check();
        assert_checks_framing(CONFIG.framing, check, ConfigError::Packets);
    }
}
