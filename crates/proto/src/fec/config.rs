//! Parameters on which both sides of a message stream agree.
//!
//! [`Config::check`] refuses streams that no side could run, with a [`ConfigError`]. Callers check
//! the parameters of a peer first, because the machines panic on invalid ones. Blocks are in a ring
//! of equal slots:
//!
//! ```text
//! | sources of block 0 | ... | sources of block n-1 | repairs of block 0 | ... | block n-1 |
//! ```
//!
//! [`Config::span`] returns the place of a symbol there. Block n takes the place of block 0.
//! Lengths are in bytes; the ring has at most 64 MiB.

use core::fmt;
use core::time::Duration;

use lighthaul_base::{Rate, Span};

use super::code::Code;
use super::wire::HEAD_LEN;

/// Parameters of one message stream. They are the same on both sides unless a field says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Maximum length of a message in bytes.
    pub message_len: u32,
    /// Erasure code that restores lost messages.
    pub code: Code,
    /// Number of blocks in the ring. It limits the sender's queue, and how far back the receiver restores messages.
    pub blocks: u16,
    /// Time for which a block waits for more messages after its first message.
    pub linger: Duration,
    /// Maximum age of a message since it was offered; `None` is unlimited.
    pub deadline: Option<Duration>,
    /// Treatment of late messages.
    pub late: Late,
    /// Bytes that the lower layers add to each datagram: IP, UDP and encryption.
    pub overhead_len: u32,
    /// Maximum rate on the wire in bits per second, headers included. The receiver ignores it.
    pub rate: Rate,
    /// Stream of the end message.
    pub stream: u16,
    /// Time for which the receiver waits for reordered datagrams after the end message. The sender ignores it.
    pub settle: Duration,
    /// Nanoseconds by which the receiver's clock is ahead of the sender's. The sender ignores it.
    pub ahead_nanos: i64,
}

/// Treatment of late messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// A late message is dropped; the sender does not even send it.
    Drop,
    /// A late message is delivered and marked as late.
    Deliver,
}

impl Config {
    /// Fails if the parameters of the stream are invalid.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.message_len == 0
            || self.message_len > MESSAGE_LEN_MAX
            || self.datagram_bytes() > DATAGRAM_BYTES_MAX
        {
            return Err(ConfigError::MessageLen(self.message_len));
        }
        if !self.code.is_possible() {
            return Err(ConfigError::Code);
        }
        if self.blocks < 2 || self.ring_len() > RING_BYTES_MAX {
            return Err(ConfigError::Blocks(self.blocks));
        }
        if self.linger > LINGER_MAX || self.settle > SETTLE_MAX {
            return Err(ConfigError::Wait);
        }
        Ok(())
    }

    /// Returns the length of a symbol: a message, its length field, and padding to an even number.
    pub const fn symbol_len(&self) -> u32 {
        symbol_len(self.message_len)
    }

    /// Returns the size of the ring in bytes.
    pub const fn ring_len(&self) -> u64 {
        let symbols = self.code.sources() as u64 + self.code.repairs() as u64;
        self.blocks as u64 * symbols * self.symbol_len() as u64
    }

    /// Returns the place in the ring of `len` bytes of symbol `symbol` in block `block`.
    pub const fn span(&self, block: u64, symbol: u8, len: u32) -> Span {
        let (sources, repairs) = (self.code.sources() as u64, self.code.repairs() as u64);
        let (nth, symbol) = (block % self.blocks as u64, symbol as u64);
        let slot = if symbol < sources {
            nth * sources + symbol
        } else {
            self.blocks as u64 * sources + nth * repairs + symbol - sources
        };
        Span::new(slot * self.symbol_len() as u64, len)
    }

    /// Returns the bytes on the wire of a datagram with a body of `len` bytes.
    pub const fn wire_bytes(&self, len: u32) -> u32 {
        self.overhead_len + HEAD_LEN as u32 + len
    }

    const fn datagram_bytes(&self) -> u64 {
        self.overhead_len as u64 + HEAD_LEN as u64 + self.symbol_len() as u64
    }
}

/// Returns the length of the symbol for a message of `len` bytes.
pub const fn symbol_len(len: u32) -> u32 {
    (len + LEN_LEN).next_multiple_of(2)
}

/// Reason why a [`Config`] is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The messages are empty, or longer than a datagram allows.
    MessageLen(u32),
    /// The code is not possible.
    Code,
    /// The ring has fewer than two blocks, or too many bytes.
    Blocks(u16),
    /// The linger or settle time is too long.
    Wait,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MessageLen(len) => {
                write!(f, "a maximum message length of {len} bytes is not allowed")
            }
            Self::Code => write!(f, "invalid erasure code: {}", super::ParseCodeError),
            Self::Blocks(blocks) => {
                write!(f, "a ring of {blocks} blocks of this size is not allowed")
            }
            Self::Wait => write!(
                f,
                "the linger time must be at most one second, and the settle time at most ten seconds"
            ),
        }
    }
}

impl core::error::Error for ConfigError {}

/// Length of the field in a symbol that holds the length of its message, in octets.
pub const LEN_LEN: u32 = 2;

const MESSAGE_LEN_MAX: u32 = 65_000;
const DATAGRAM_BYTES_MAX: u64 = 65_535;
/// Maximum size of the ring, which both sides keep in memory.
const RING_BYTES_MAX: u64 = 64 << 20;
const LINGER_MAX: Duration = Duration::from_secs(1);
const SETTLE_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    const CONFIG: Config = Config {
        message_len: 99,
        code: Code::ReedSolomon(4, 2),
        blocks: 8,
        linger: Duration::from_millis(2),
        deadline: None,
        late: Late::Deliver,
        overhead_len: 28,
        rate: Rate::UNLIMITED,
        stream: 0,
        settle: Duration::ZERO,
        ahead_nanos: 0,
    };

    #[test]
    fn slots_fill_the_ring_without_overlap() {
        assert_eq!(CONFIG.check(), Ok(()));
        assert_eq!(CONFIG.symbol_len(), 102);
        let slots: BTreeSet<u64> = (0..8)
            .flat_map(|block| (0..6).map(move |symbol| CONFIG.span(block + 80, symbol, 1).offset))
            .collect();
        let expected: BTreeSet<u64> = (0..48).map(|nth| nth * 102).collect();
        assert_eq!(slots, expected);
        assert_eq!(CONFIG.ring_len(), 48 * 102);
        assert!(
            CONFIG.span(7, 3, 1) < CONFIG.span(0, 4, 1),
            "repair symbols follow the source symbols"
        );
    }

    #[test]
    fn invalid_config_is_refused() {
        for (config, error) in [
            (
                Config {
                    message_len: 0,
                    ..CONFIG
                },
                ConfigError::MessageLen(0),
            ),
            (
                Config {
                    message_len: u32::MAX,
                    ..CONFIG
                },
                ConfigError::MessageLen(u32::MAX),
            ),
            (
                Config {
                    overhead_len: 65_500,
                    ..CONFIG
                },
                ConfigError::MessageLen(99),
            ),
            (
                Config {
                    code: Code::Xor(0),
                    ..CONFIG
                },
                ConfigError::Code,
            ),
            (
                Config {
                    blocks: 1,
                    ..CONFIG
                },
                ConfigError::Blocks(1),
            ),
            (
                Config {
                    blocks: 60_000,
                    message_len: 60_000,
                    ..CONFIG
                },
                ConfigError::Blocks(60_000),
            ),
            (
                Config {
                    linger: Duration::from_secs(2),
                    ..CONFIG
                },
                ConfigError::Wait,
            ),
            (
                Config {
                    settle: Duration::MAX,
                    ..CONFIG
                },
                ConfigError::Wait,
            ),
        ] {
            assert_eq!(config.check(), Err(error));
        }
    }
}
