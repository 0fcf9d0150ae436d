//! Division of an object into numbered packets.
//!
//! A [`PacketLayout`] converts between packet numbers and [`Span`]s of bytes. Packets cover the
//! object exactly and in order:
//!
//! ```text
//! object   |---- 0 ----|---- 1 ----|- 2 -|     packet_len each, the last may be shorter
//! ```
//!
//! Both sides compute the same layout, so a datagram needs no offset. [`PacketLayout::place`]
//! checks the number and the length that a peer claims.

use core::fmt;
use core::ops::Range;

use lighthaul_base::Span;

/// Length of an object and of its packets. Only the last packet may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketLayout {
    /// Length of the object in bytes.
    pub object_len: u64,
    /// Length of a packet in bytes.
    pub packet_len: u32,
}

impl PacketLayout {
    /// Fails if the packets are empty, longer than `packet_len_max` bytes, or more than `packets_max`.
    pub fn check(self, packet_len_max: u64, packets_max: u64) -> Result<(), PacketLayoutError> {
        if self.packet_len == 0 || u64::from(self.packet_len) > packet_len_max {
            return Err(PacketLayoutError::PacketLen(self.packet_len));
        }
        let packets = self.packets();
        if packets > packets_max {
            return Err(PacketLayoutError::Packets {
                packets,
                packets_max,
            });
        }
        Ok(())
    }

    /// Returns the number of packets.
    #[inline]
    pub fn packets(self) -> u64 {
        self.object_len.div_ceil(u64::from(self.packet_len.max(1)))
    }

    /// Returns the span of packet `number`, which must be below [`PacketLayout::packets`].
    #[inline]
    pub fn span(self, number: u64) -> Span {
        let offset = number * u64::from(self.packet_len);
        debug_assert!(offset < self.object_len);
        let len = u64::from(self.packet_len).min(self.object_len - offset);
        Span::new(offset, len as u32)
    }

    /// Returns the span of packet `number`, or `None` if the packet does not exist or does not have `len` bytes.
    #[inline]
    pub fn place(self, number: u64, len: u32) -> Option<Span> {
        let offset = number.checked_mul(u64::from(self.packet_len))?;
        let exists = offset < self.object_len;
        exists
            .then(|| self.span(number))
            .filter(|span| span.len == len)
    }

    /// Returns the first span of whole packets at or after `offset`, of at most `len` bytes. `run(from, max)` returns
    /// the next run of at most `max` packets from number `from` on, among those that the caller wants.
    pub fn upcoming(
        self,
        offset: u64,
        len: u32,
        run: impl FnOnce(u64, u64) -> Option<Range<u64>>,
    ) -> Option<Span> {
        let packet_len = u64::from(self.packet_len);
        let run = run(offset.div_ceil(packet_len), u64::from(len) / packet_len)?;
        let start = run.start.checked_mul(packet_len)?;
        let end = run.end.checked_mul(packet_len)?.min(self.object_len);
        let len = end.checked_sub(start).filter(|len| *len > 0)?;
        Some(Span::new(start, len as u32))
    }
}

/// Reason why an object cannot be divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketLayoutError {
    /// The packet is empty, or longer than a message allows.
    PacketLen(u32),
    /// The object has more packets than the protocol can number.
    Packets {
        /// Number of packets of the object.
        packets: u64,
        /// Maximum number of packets.
        packets_max: u64,
    },
}

impl fmt::Display for PacketLayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PacketLen(len) => write!(
                f,
                "a packet of {len} bytes is not allowed: choose another packet length"
            ),
            Self::Packets {
                packets,
                packets_max,
            } => write!(
                f,
                "the object has {packets} packets, but at most {packets_max} are allowed: choose a greater packet length"
            ),
        }
    }
}

impl core::error::Error for PacketLayoutError {}

/// Maximum length of an IP datagram in bytes.
pub const DATAGRAM_BYTES_MAX: u64 = 65_535;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const LAYOUT: PacketLayout = PacketLayout {
        object_len: 10_001,
        packet_len: 1000,
    };

    #[test]
    fn invalid_packet_length_and_count_are_refused() {
        assert_eq!(LAYOUT.check(1000, 11), Ok(()));
        assert_eq!(
            LAYOUT.check(999, 11),
            Err(PacketLayoutError::PacketLen(1000))
        );
        let too_many = PacketLayoutError::Packets {
            packets: 11,
            packets_max: 10,
        };
        assert_eq!(LAYOUT.check(1000, 10), Err(too_many));
        let nothing = PacketLayout {
            packet_len: 0,
            ..LAYOUT
        };
        assert_eq!(
            nothing.check(1000, 10),
            Err(PacketLayoutError::PacketLen(0))
        );
    }

    #[test]
    fn packet_number_and_length_must_match() {
        assert_eq!(LAYOUT.place(9, 1000), Some(Span::new(9000, 1000)));
        assert_eq!(LAYOUT.place(10, 1), Some(Span::new(10_000, 1)));
        for (number, len) in [(9, 999), (10, 1000), (11, 1), (u64::MAX, 1000)] {
            assert_eq!(LAYOUT.place(number, len), None, "{number} {len}");
        }
    }

    proptest! {
        #[test]
        fn packets_cover_the_object_exactly(object_len in 0_u64..5000, packet_len in 1_u32..600) {
            let layout = PacketLayout { object_len, packet_len };
            let spans: Vec<_> = (0..layout.packets()).map(|number| layout.span(number)).collect();
            let mut till = 0;
            for span in &spans {
                prop_assert_eq!(span.offset, till);
                prop_assert!((1..=packet_len).contains(&span.len));
                till = span.end();
            }
            prop_assert_eq!(till, object_len);
            prop_assert!(spans.iter().rev().skip(1).all(|span| span.len == packet_len));
        }

        #[test]
        fn upcoming_span_consists_of_complete_packets(
            object_len in 0_u64..5000, packet_len in 1_u32..600, offset: u64, near in 0_u64..6000,
            len in 0_u32..3000, skip in 0_u64..4,
        ) {
            let layout = PacketLayout { object_len, packet_len };
            // all packets but the first few are missing
            let run = |from: u64, packets_max| {
                let from = from.max(skip);
                Some(from..layout.packets().min(from.saturating_add(packets_max)))
            };
            for offset in [offset, near] {
                let Some(span) = layout.upcoming(offset, len, run) else { continue };
                let first = span.offset / u64::from(packet_len);
                prop_assert!(span.offset >= offset && (1..=len).contains(&span.len));
                prop_assert_eq!(layout.span(first).offset, span.offset);
                prop_assert!(span.end() == object_len || span.end() % u64::from(packet_len) == 0);
            }
        }
    }
}
