//! What both sides of a message stream agree on.

use core::fmt;
use core::time::Duration;

use lighthaul_base::{Rate, Span};

use super::code::Code;
use super::wire::HEAD_LEN;

/// One message stream; the same on both sides except where a field says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The most bytes that a message has.
    pub message_len: u32,
    /// How lost messages are restored.
    pub code: Code,
    /// Blocks that the ring has: the most that a sender's queue holds, and how far back a receiver restores.
    pub blocks: u16,
    /// How long a block waits for more messages after its first.
    pub linger: Duration,
    /// How old a message may become, counted from when it was offered; none is never late.
    pub deadline: Option<Duration>,
    /// What becomes of a message that is late.
    pub late: Late,
    /// Bytes that the world adds to each datagram on the wire: IP, UDP, seal.
    pub overhead_len: u32,
    /// Bits a second on the wire that are never exceeded, headers included. The receiver ignores it.
    pub rate: Rate,
    /// The stream that carries the end.
    pub stream: u16,
    /// How long the receiver waits for late datagrams after the end. The sender ignores it.
    pub settle: Duration,
    /// By how many nanoseconds the receiver's clock is ahead. The sender ignores it.
    pub ahead_nanos: i64,
}

/// What becomes of a message that is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// Nobody gets it, and a sender does not even send it.
    Drop,
    /// It is delivered, and told as late.
    Deliver,
}

impl Config {
    /// Tells whether a stream can be made of this.
    pub fn check(&self) -> Result<(), Misuse> {
        if self.message_len == 0
            || self.message_len > MESSAGE_LEN_MAX
            || self.datagram_bytes() > DATAGRAM_BYTES_MAX
        {
            return Err(Misuse::MessageLen(self.message_len));
        }
        if !self.code.is_possible() {
            return Err(Misuse::Code);
        }
        if self.blocks < 2 || self.ring_len() > RING_BYTES_MAX {
            return Err(Misuse::Blocks(self.blocks));
        }
        if self.linger > LINGER_MAX || self.settle > SETTLE_MAX {
            return Err(Misuse::Wait);
        }
        Ok(())
    }

    /// The length of a symbol as the code sees it: a message, its length, and zeros up to an even number.
    pub const fn symbol_len(&self) -> u32 {
        symbol_len(self.message_len)
    }

    /// Bytes of the ring with all its slots.
    pub const fn ring_len(&self) -> u64 {
        let symbols = self.code.sources() as u64 + self.code.repairs() as u64;
        self.blocks as u64 * symbols * self.symbol_len() as u64
    }

    /// Where `len` bytes of symbol `symbol` of block `block` are.
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

    /// What a datagram with a body of `len` bytes costs on the wire.
    pub const fn wire_bytes(&self, len: u32) -> u32 {
        self.overhead_len + HEAD_LEN as u32 + len
    }

    const fn datagram_bytes(&self) -> u64 {
        self.overhead_len as u64 + HEAD_LEN as u64 + self.symbol_len() as u64
    }
}

/// The length of the symbol that a message of `len` bytes takes.
pub const fn symbol_len(len: u32) -> u32 {
    (len + LEN_LEN).next_multiple_of(2)
}

/// What cannot be made into a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// Messages of no bytes, or of more than a datagram carries.
    MessageLen(u32),
    /// A code that does not exist.
    Code,
    /// A ring of too few blocks, or of too many bytes.
    Blocks(u16),
    /// A wait that is longer than anybody would wait.
    Wait,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MessageLen(len) => write!(f, "messages cannot have up to {len} bytes"),
            Self::Code => write!(f, "there is no such code: {}", super::NotACode),
            Self::Blocks(blocks) => write!(f, "a ring cannot have {blocks} blocks of this size"),
            Self::Wait => write!(
                f,
                "a block lingers for a second at most, and the end for ten"
            ),
        }
    }
}

impl core::error::Error for Misuse {}

/// Octets of a symbol that tell how long its message is.
pub const LEN_LEN: u32 = 2;

const MESSAGE_LEN_MAX: u32 = 65_000;
const DATAGRAM_BYTES_MAX: u64 = 65_535;
/// Both sides keep that much for a stream.
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
    fn slots_fill_the_ring_and_do_not_touch() {
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
            "repair symbols lie behind"
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (config, misuse) in [
            (
                Config {
                    message_len: 0,
                    ..CONFIG
                },
                Misuse::MessageLen(0),
            ),
            (
                Config {
                    message_len: u32::MAX,
                    ..CONFIG
                },
                Misuse::MessageLen(u32::MAX),
            ),
            (
                Config {
                    overhead_len: 65_500,
                    ..CONFIG
                },
                Misuse::MessageLen(99),
            ),
            (
                Config {
                    code: Code::Xor(0),
                    ..CONFIG
                },
                Misuse::Code,
            ),
            (
                Config {
                    blocks: 1,
                    ..CONFIG
                },
                Misuse::Blocks(1),
            ),
            (
                Config {
                    blocks: 60_000,
                    message_len: 60_000,
                    ..CONFIG
                },
                Misuse::Blocks(60_000),
            ),
            (
                Config {
                    linger: Duration::from_secs(2),
                    ..CONFIG
                },
                Misuse::Wait,
            ),
            (
                Config {
                    settle: Duration::MAX,
                    ..CONFIG
                },
                Misuse::Wait,
            ),
        ] {
            assert_eq!(config.check(), Err(misuse));
        }
    }
}
