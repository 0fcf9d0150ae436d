//! Division of an object into packets, and the bytes around each of them.

use crate::packet_layout::{DATAGRAM_BYTES_MAX, PacketLayout, PacketLayoutError};

/// Lengths of an object, of its packets, and of the headers of lower layers. `HEAD_LEN` is the length of the protocol's
/// own header in octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing<const HEAD_LEN: usize> {
    /// Length of the object in bytes.
    pub object_len: u64,
    /// Bytes of the object in a packet. The last packet may be shorter.
    pub packet_len: u32,
    /// Bytes that the lower layers add to each datagram: IP, UDP and encryption. They count for the pacer.
    pub overhead_len: u32,
}

impl<const HEAD_LEN: usize> Framing<HEAD_LEN> {
    /// Fails if a packet does not fit in a datagram, or if there are more than `packets_max`.
    pub fn check(self, packets_max: u64) -> Result<(), PacketLayoutError> {
        let around = u64::from(self.overhead_len) + HEAD_LEN as u64;
        self.layout()
            .check(DATAGRAM_BYTES_MAX.saturating_sub(around), packets_max)
    }

    /// Returns the division of the object into packets.
    pub const fn layout(self) -> PacketLayout {
        PacketLayout {
            object_len: self.object_len,
            packet_len: self.packet_len,
        }
    }

    /// Returns the number of packets of the object.
    #[inline]
    pub fn packets(self) -> u64 {
        self.layout().packets()
    }

    /// Returns the bytes on the wire of a datagram with a body of `len` bytes.
    #[inline]
    pub const fn wire_bytes(self, len: u32) -> u32 {
        self.overhead_len + HEAD_LEN as u32 + len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMING: Framing<8> = Framing {
        object_len: 10_001,
        packet_len: 1000,
        overhead_len: 28,
    };

    #[test]
    fn packet_with_all_headers_fits_in_a_datagram() {
        assert_eq!(FRAMING.check(11), Ok(()));
        assert_eq!((FRAMING.packets(), FRAMING.wire_bytes(1000)), (11, 1036));
        let refused = |packet_len, overhead_len| {
            let framing = Framing {
                packet_len,
                overhead_len,
                ..FRAMING
            };
            framing.check(11).is_err()
        };
        assert!(!refused(65_499, 28) && refused(65_500, 28));
        assert!(refused(0, 28) && refused(1000, u32::MAX));
        assert!(FRAMING.check(10).is_err());
    }
}
