//! Bytes that devices count for each packet in addition to the packet of IP, such as Ethernet headers.

/// Returns the work that devices count for IP packets with an amount of work. They count `packet_bytes` more for each
/// packet of [`PACKET_BYTES`].
pub fn work(work: u128, packet_bytes: u16) -> u128 {
    let more = work.saturating_mul(u128::from(packet_bytes));
    work.saturating_add(more.div_ceil(u128::from(PACKET_BYTES)))
}

/// Length of the packets of a transfer in bytes, as most paths carry them.
pub const PACKET_BYTES: u16 = 1500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_counts_its_additional_bytes() {
        assert_eq!(work(15_000, 0), 15_000);
        assert_eq!(work(15_000, 38), 15_380);
        // a part of a packet counts as a part of the additional bytes, rounded up
        assert_eq!(work(1, 38), 2);
        assert_eq!(work(u128::MAX, 38), u128::MAX);
    }
}
