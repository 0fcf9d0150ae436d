//! Parameters on which both sides of a transfer agree.

use core::fmt;

use lighthaul_base::Rate;
pub use lighthaul_parts::PacketLayout;
use lighthaul_parts::packet_layout;

use super::wire::HEAD_LEN;

/// Parameters of one transfer. They are the same on both sides unless a field says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Division of the object into packets.
    pub layout: PacketLayout,
    /// Rate of packets and their heads in bits per second. The receiver ignores it.
    pub rate: Rate,
    /// Number of the first stream. It carries the receiver's messages, and packets if all other streams are broken.
    pub stream: u16,
    /// Number of streams that carry packets. They follow the first stream.
    pub streams: u16,
}

impl Config {
    /// Fails if the parameters of the transfer are invalid.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.layout
            .check(PACKET_LEN_MAX.into(), PACKETS_MAX)
            .map_err(ConfigError::Packets)?;
        if self.streams > STREAMS_MAX || self.stream.checked_add(self.streams).is_none() {
            return Err(ConfigError::Streams(self.streams));
        }
        Ok(())
    }

    /// Returns the length of a packet with a body of `len` bytes, its head included.
    pub const fn wire_bytes(&self, len: u32) -> u32 {
        HEAD_LEN as u32 + len
    }

    /// Returns the index of a stream within this transfer, from 0, or `None` for a stream of another transfer.
    pub(super) const fn index(&self, stream: u16) -> Option<u16> {
        match stream.checked_sub(self.stream) {
            Some(index) if index <= self.streams => Some(index),
            _ => None,
        }
    }
}

/// Reason why a [`Config`] is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The packets are too long, empty or too many.
    Packets(packet_layout::PacketLayoutError),
    /// There are more streams than [`STREAMS_MAX`], or their numbers exceed 16 bits.
    Streams(u16),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(error) => error.fmt(f),
            Self::Streams(streams) => write!(
                f,
                "{streams} streams exceed the maximum of {STREAMS_MAX} or the range of stream numbers"
            ),
        }
    }
}

impl core::error::Error for ConfigError {}

/// Maximum length of a packet's body in bytes.
pub const PACKET_LEN_MAX: u32 = 1 << 20;
/// Maximum number of packets in one object. The sender keeps one byte for each.
pub const PACKETS_MAX: u64 = 1 << 22;
/// Maximum number of streams besides the first.
pub const STREAMS_MAX: u16 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: Config = Config {
        layout: PacketLayout {
            object_len: 10_001,
            packet_len: 1000,
        },
        rate: Rate::UNLIMITED,
        stream: 2,
        streams: 4,
    };

    #[test]
    fn stream_numbers_map_to_indices() {
        let indices: [_; 7] = core::array::from_fn(|stream| CONFIG.index(stream as u16 + 1));
        let expected = [None, Some(0), Some(1), Some(2), Some(3), Some(4), None];
        assert_eq!(indices, expected);
    }

    #[test]
    fn invalid_config_is_refused() {
        assert_eq!(CONFIG.check(), Ok(()));
        let refused = |config: Config| config.check().unwrap_err();
        for layout in [
            PacketLayout {
                packet_len: 1000 + (1 << 20),
                ..CONFIG.layout
            },
            PacketLayout {
                object_len: u64::MAX,
                ..CONFIG.layout
            },
        ] {
            let error = refused(Config { layout, ..CONFIG });
            assert!(matches!(error, ConfigError::Packets(_)), "{error:?}");
        }
        assert_eq!(
            refused(Config {
                streams: 33,
                ..CONFIG
            }),
            ConfigError::Streams(33)
        );
        assert_eq!(
            refused(Config {
                stream: u16::MAX,
                ..CONFIG
            }),
            ConfigError::Streams(4)
        );
    }
}
