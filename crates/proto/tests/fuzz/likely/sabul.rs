use proptest::prelude::*;

use super::{handed, transfer};

pub fn calls() -> impl Strategy<Value = Vec<u8>> {
    let begin = (
        any::<u16>(),
        1_u16..2_000,
        any::<[u8; 3]>(),
        any::<u32>(),
        1_u8..,
        1_u8..,
    );
    let begin = begin.prop_map(|(object_len, packet_len, flags, rate, window, ranges)| {
        let mut octets = object_len.to_be_bytes().to_vec();
        octets.extend(packet_len.to_be_bytes());
        octets.push(28);
        octets.extend(flags);
        octets.extend((u64::from(rate) << 8 | 1).to_be_bytes());
        octets.extend([3, 0xe8]);
        octets.extend((u64::MAX >> 1).to_be_bytes());
        octets.extend([window, ranges]);
        octets
    });
    let sent = (0_u8..9).prop_map(|till| handed(4, &[1, 0, 0, 0, till]));
    let nak = prop::collection::vec((0_u8..4, 1_u8..4), 1..4).prop_map(|ranges| {
        let ranges = ranges
            .into_iter()
            .flat_map(|(distance, len)| [distance, len]);
        handed(5, &std::iter::once(3).chain(ranges).collect::<Vec<_>>())
    });
    transfer(begin, vec![sent.boxed(), nak.boxed()])
}
