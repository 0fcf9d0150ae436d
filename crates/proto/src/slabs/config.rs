//! What both sides of a link agree on.

use core::fmt;
use core::time::Duration;

use super::wire::HEAD_LEN;
use crate::parts::cut::DATAGRAM_BYTES_MAX;

/// One link; the same on both sides except where a field says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes of a page in a packet; a page's last may have fewer.
    pub packet_len: u32,
    /// Bytes that the world adds to each datagram: IP, UDP, seal. The channel's rate counts them.
    pub overhead_len: u32,
    /// The stream that carries everything but pages.
    pub stream: u16,
    /// Bytes on the wire that the channel's policer takes at once, by default 1 ms of its rate. Our own side's.
    pub burst: Option<u32>,
    /// How long a datagram may be overtaken before it counts as lost.
    pub settle: Duration,
    /// How often the receiver says what came, while something comes.
    pub ack_every: Duration,
    /// How long the peer may be silent before the connection counts as broken.
    pub patience: Duration,
    /// Pages of a slab, at most. Our own side's.
    pub slab_pages: u32,
    /// How long bytes wait for a slab to fill while the channel is idle. Our own side's.
    pub age: Duration,
    /// Pages that we have room for. Our own side's.
    pub pages_max: u32,
    /// Bytes that a session may send before it is told that it may send more.
    pub window: u32,
}

impl Config {
    /// Tells whether a link can be made of this.
    pub fn check(&self) -> Result<(), Misuse> {
        let around = u64::from(self.overhead_len) + HEAD_LEN as u64;
        let most = DATAGRAM_BYTES_MAX.saturating_sub(around);
        if self.packet_len == 0 || u64::from(self.packet_len) > most {
            return Err(Misuse::PacketLen(self.packet_len));
        }
        if self
            .burst
            .is_some_and(|burst| burst < self.wire_bytes(self.packet_len))
        {
            return Err(Misuse::Burst);
        }
        if !(1..=SLAB_PAGES_MAX).contains(&self.slab_pages) {
            return Err(Misuse::Slab(self.slab_pages));
        }
        if !(PAGES_MIN..=PAGES_MAX).contains(&self.pages_max) {
            return Err(Misuse::Pages(self.pages_max));
        }
        if self.window < self.page_len() {
            return Err(Misuse::Window(self.window));
        }
        Ok(())
    }

    /// Bytes of a page that is full: what a train carries.
    pub const fn page_len(&self) -> u32 {
        self.packet_len * PAGE_PACKETS as u32
    }

    /// How many packets a page of `len` bytes has.
    pub const fn packets_in(&self, len: u32) -> u64 {
        len.div_ceil(self.packet_len) as u64
    }

    /// What a datagram with a body of `len` bytes costs on the channel.
    pub const fn wire_bytes(&self, len: u32) -> u32 {
        self.overhead_len + HEAD_LEN as u32 + len
    }
}

/// What cannot be made into a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// Packets of such a size cannot be.
    PacketLen(u32),
    /// A burst of less than a datagram.
    Burst,
    /// Slabs of so many pages cannot be.
    Slab(u32),
    /// Room for so many pages cannot be.
    Pages(u32),
    /// A window of less than a page.
    Window(u32),
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PacketLen(len) => write!(f, "no datagram holds packets of {len} bytes"),
            Self::Burst => write!(f, "a burst must hold one datagram"),
            Self::Slab(pages) => write!(
                f,
                "a slab has 1 to {SLAB_PAGES_MAX} pages, which {pages} is not"
            ),
            Self::Pages(pages) => write!(
                f,
                "a gateway has room for {PAGES_MIN} to {PAGES_MAX} pages, which {pages} is not"
            ),
            Self::Window(bytes) => write!(f, "a window of {bytes} bytes holds no page"),
        }
    }
}

impl core::error::Error for Misuse {}

/// Packets of a page, so that a full one makes a train.
pub const PAGE_PACKETS: u64 = 44;
/// The most pages of one slab: 1 GiB of them.
pub const SLAB_PAGES_MAX: u32 = 1 << 14;
/// The least and most pages that a side has room for.
pub const PAGES_MIN: u32 = 16;
/// 16 GiB of them: heads tell all packets apart that have a place then, and late ones from them.
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
    fn what_cannot_be_is_refused() {
        let with = |change: fn(&mut Config)| {
            let mut config = EXAMPLE;
            change(&mut config);
            config.check()
        };
        assert_eq!(with(|_| ()), Ok(()));
        assert_eq!(with(|c| c.packet_len = 0), Err(Misuse::PacketLen(0)));
        let long = Err(Misuse::PacketLen(65_500));
        assert_eq!(with(|c| c.packet_len = 65_500), long);
        assert_eq!(with(|c| c.burst = Some(1051)), Err(Misuse::Burst));
        assert_eq!(with(|c| c.slab_pages = 0), Err(Misuse::Slab(0)));
        assert_eq!(with(|c| c.pages_max = 1), Err(Misuse::Pages(1)));
        assert_eq!(with(|c| c.window = 43_999), Err(Misuse::Window(43_999)));
    }

    #[test]
    fn a_page_has_a_train_of_packets_and_its_last_may_be_short() {
        assert_eq!(EXAMPLE.page_len(), 44_000);
        assert_eq!(EXAMPLE.packets_in(44_000), 44);
        assert_eq!(EXAMPLE.packets_in(43_001), 44);
        assert_eq!(EXAMPLE.packets_in(1), 1);
        assert_eq!(EXAMPLE.packets_in(0), 0);
    }
}
