//! Parameters on which both sides of a link agree.
//!
//! A [`Config`] has the lengths of packets and pages, times, and bounds of memory. Fields that are
//! local to a side may differ. [`Config::check`] refuses values that the machines cannot run with,
//! as a [`ConfigError`].
//!
//! ```text
//! slab: 1 to 16,384 pages -> page: 44 packets of one session -> packet: packet_len bytes
//! ```
//!
//! Credit counts pages, windows count bytes. The rate of the channel is not a parameter, since it
//! changes.

use core::fmt;
use core::time::Duration;

use lighthaul_parts::packet_layout::DATAGRAM_BYTES_MAX;

use super::wire::HEAD_LEN;

/// Parameters of one link. They are the same on both sides unless a field says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes of a page in a packet. The last packet of a page may be shorter.
    pub packet_len: u32,
    /// Bytes that the lower layers add to each datagram: IP, UDP and encryption. The channel's rate includes them.
    pub overhead_len: u32,
    /// Stream that carries everything except pages.
    pub stream: u16,
    /// Burst in bytes that the channel's policer accepts; the default is 1 ms at its rate. Local to this side.
    pub burst: Option<u32>,
    /// Time for which a missing datagram may have been overtaken before it counts as lost.
    pub settle: Duration,
    /// Interval of the receiver's reports while datagrams arrive.
    pub ack_every: Duration,
    /// Silence of the peer after which the connection counts as broken.
    pub patience: Duration,
    /// Maximum number of pages in a slab. Local to this side.
    pub slab_pages: u32,
    /// Time for which bytes wait for a full slab while the channel is idle. Local to this side.
    pub age: Duration,
    /// Number of pages that this side can store. Local to this side.
    pub pages_max: u32,
    /// Initial window of a session in bytes; later windows extend as far beyond the delivered bytes.
    pub window: u32,
}

impl Config {
    /// Fails if the parameters of the link are invalid.
    pub fn check(&self) -> Result<(), ConfigError> {
        let around = u64::from(self.overhead_len) + HEAD_LEN as u64;
        let most = DATAGRAM_BYTES_MAX.saturating_sub(around);
        if self.packet_len == 0 || u64::from(self.packet_len) > most {
            return Err(ConfigError::PacketLen(self.packet_len));
        }
        if self
            .burst
            .is_some_and(|burst| burst < self.wire_bytes(self.packet_len))
        {
            return Err(ConfigError::Burst);
        }
        if !(1..=SLAB_PAGES_MAX).contains(&self.slab_pages) {
            return Err(ConfigError::Slab(self.slab_pages));
        }
        if !(PAGES_MIN..=PAGES_MAX).contains(&self.pages_max) {
            return Err(ConfigError::Pages(self.pages_max));
        }
        if self.window < self.page_len() {
            return Err(ConfigError::Window(self.window));
        }
        Ok(())
    }

    /// Returns the length of a full page in bytes. It fills one train of datagrams.
    pub const fn page_len(&self) -> u32 {
        self.packet_len * PAGE_PACKETS as u32
    }

    /// Returns the number of packets of a page of `len` bytes.
    pub const fn packets_in(&self, len: u32) -> u64 {
        len.div_ceil(self.packet_len) as u64
    }

    /// Returns the bytes on the channel of a datagram with a body of `len` bytes.
    pub const fn wire_bytes(&self, len: u32) -> u32 {
        self.overhead_len + HEAD_LEN as u32 + len
    }
}

/// Reason why a [`Config`] is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The packets are empty, or longer than a datagram allows.
    PacketLen(u32),
    /// The burst is shorter than a datagram.
    Burst,
    /// The number of pages of a slab is out of range.
    Slab(u32),
    /// The number of pages that this side can store is out of range.
    Pages(u32),
    /// The window is shorter than a page.
    Window(u32),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PacketLen(len) => write!(f, "a packet length of {len} bytes is not allowed"),
            Self::Burst => write!(f, "a burst must hold one datagram"),
            Self::Slab(pages) => write!(
                f,
                "a slab must have 1 to {SLAB_PAGES_MAX} pages, not {pages}"
            ),
            Self::Pages(pages) => write!(
                f,
                "a gateway must have room for {PAGES_MIN} to {PAGES_MAX} pages, not {pages}"
            ),
            Self::Window(bytes) => write!(f, "a window of {bytes} bytes is shorter than a page"),
        }
    }
}

impl core::error::Error for ConfigError {}

/// Number of packets in a page, chosen so that a full page makes one train.
pub const PAGE_PACKETS: u64 = 44;
/// Maximum number of pages of a slab (1 GiB).
pub const SLAB_PAGES_MAX: u32 = 1 << 14;
/// Minimum number of pages that a side must be able to store.
pub const PAGES_MIN: u32 = 16;
/// Maximum number of pages that a side can store (16 GiB). It keeps the packet numbers in heads unambiguous, even for
/// late packets.
pub const PAGES_MAX: u32 = 1 << 18;

#[cfg(test)]
pub(super) const EXAMPLE: Config = Config {
    packet_len: 1000,
    overhead_len: 44,
    stream: 0,
    burst: None,
    settle: Duration::from_millis(2),
    ack_every: Duration::from_millis(10),
    patience: Duration::from_secs(5),
    slab_pages: 64,
    age: Duration::from_millis(1),
    pages_max: 1024,
    window: 1 << 20,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_config_is_refused() {
        let with = |change: fn(&mut Config)| {
            let mut config = EXAMPLE;
            change(&mut config);
            config.check()
        };
        assert_eq!(with(|_| ()), Ok(()));
        assert_eq!(with(|c| c.packet_len = 0), Err(ConfigError::PacketLen(0)));
        let long = Err(ConfigError::PacketLen(65_500));
        assert_eq!(with(|c| c.packet_len = 65_500), long);
        assert_eq!(with(|c| c.burst = Some(1051)), Err(ConfigError::Burst));
        assert_eq!(with(|c| c.slab_pages = 0), Err(ConfigError::Slab(0)));
        assert_eq!(with(|c| c.pages_max = 1), Err(ConfigError::Pages(1)));
        assert_eq!(
            with(|c| c.window = 43_999),
            Err(ConfigError::Window(43_999))
        );
    }

    #[test]
    fn page_has_44_packets_and_last_may_be_short() {
        assert_eq!(EXAMPLE.page_len(), 44_000);
        assert_eq!(EXAMPLE.packets_in(44_000), 44);
        assert_eq!(EXAMPLE.packets_in(43_001), 44);
        assert_eq!(EXAMPLE.packets_in(1), 1);
        assert_eq!(EXAMPLE.packets_in(0), 0);
    }
}
