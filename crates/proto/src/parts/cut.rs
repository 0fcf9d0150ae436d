//! An object cut into packets, which are what machines number.

use core::fmt;
use core::ops::Range;

use lighthaul_base::Span;

/// How long an object and its packets are; only the last packet may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes of the object.
    pub object_len: u64,
    /// Bytes of the object in a packet.
    pub packet_len: u32,
}

impl Cut {
    /// Tells whether the packets have a size and a number that can be.
    pub fn check(self, packet_len_max: u64, packets_max: u64) -> Result<(), Misuse> {
        if self.packet_len == 0 || u64::from(self.packet_len) > packet_len_max {
            return Err(Misuse::PacketLen(self.packet_len));
        }
        let packets = self.packets();
        if packets > packets_max {
            return Err(Misuse::Packets {
                packets,
                packets_max,
            });
        }
        Ok(())
    }

    /// How many packets there are.
    pub fn packets(self) -> u64 {
        self.object_len.div_ceil(u64::from(self.packet_len.max(1)))
    }

    /// Where the body of packet `number` belongs; the number must be below [`Cut::packets`].
    pub fn span(self, number: u64) -> Span {
        let offset = number * u64::from(self.packet_len);
        debug_assert!(offset < self.object_len);
        let len = u64::from(self.packet_len).min(self.object_len - offset);
        Span::new(offset, len as u32)
    }

    /// Where packet `number` belongs that has so many bytes, if there is such a one.
    pub fn place(self, number: u64, len: u32) -> Option<Span> {
        let offset = number.checked_mul(u64::from(self.packet_len))?;
        let exists = offset < self.object_len;
        exists
            .then(|| self.span(number))
            .filter(|span| span.len == len)
    }

    /// The first whole packets from `offset` on, of at most `len` bytes, among those of which `run` tells the next
    /// few: it is asked for those from a number on, and for how many at most.
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

/// What no object can be cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// A packet of no bytes, or of more than a message carries.
    PacketLen(u32),
    /// More packets than a protocol numbers.
    Packets {
        /// How many there would be.
        packets: u64,
        /// How many there may be.
        packets_max: u64,
    },
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PacketLen(len) => write!(f, "a packet cannot have {len} bytes"),
            Self::Packets {
                packets,
                packets_max,
            } => write!(
                f,
                "{packets} packets are more than {packets_max} in one object"
            ),
        }
    }
}

impl core::error::Error for Misuse {}

/// The largest IP datagram.
pub const DATAGRAM_BYTES_MAX: u64 = 65_535;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const CUT: Cut = Cut {
        object_len: 10_001,
        packet_len: 1000,
    };

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(CUT.check(1000, 11), Ok(()));
        assert_eq!(CUT.check(999, 11), Err(Misuse::PacketLen(1000)));
        let too_many = Misuse::Packets {
            packets: 11,
            packets_max: 10,
        };
        assert_eq!(CUT.check(1000, 10), Err(too_many));
        let nothing = Cut {
            packet_len: 0,
            ..CUT
        };
        assert_eq!(nothing.check(1000, 10), Err(Misuse::PacketLen(0)));
    }

    #[test]
    fn a_packet_has_one_place_and_one_length() {
        assert_eq!(CUT.place(9, 1000), Some(Span::new(9000, 1000)));
        assert_eq!(CUT.place(10, 1), Some(Span::new(10_000, 1)));
        for (number, len) in [(9, 999), (10, 1000), (11, 1), (u64::MAX, 1000)] {
            assert_eq!(CUT.place(number, len), None, "{number} {len}");
        }
    }

    proptest! {
        #[test]
        fn packets_cover_the_object_exactly(object_len in 0_u64..5000, packet_len in 1_u32..600) {
            let cut = Cut { object_len, packet_len };
            let spans: Vec<_> = (0..cut.packets()).map(|number| cut.span(number)).collect();
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
        fn what_is_upcoming_is_whole_packets(
            object_len in 0_u64..5000, packet_len in 1_u32..600, offset: u64, near in 0_u64..6000,
            len in 0_u32..3000, skip in 0_u64..4,
        ) {
            let cut = Cut { object_len, packet_len };
            // all are missing but a few
            let run = |from: u64, packets_max| {
                let from = from.max(skip);
                Some(from..cut.packets().min(from.saturating_add(packets_max)))
            };
            for offset in [offset, near] {
                let Some(span) = cut.upcoming(offset, len, run) else { continue };
                let first = span.offset / u64::from(packet_len);
                prop_assert!(span.offset >= offset && (1..=len).contains(&span.len));
                prop_assert_eq!(cut.span(first).offset, span.offset);
                prop_assert!(span.end() == object_len || span.end() % u64::from(packet_len) == 0);
            }
        }
    }
}
