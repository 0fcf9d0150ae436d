use proptest::prelude::*;

use super::{handed, transfer};

pub fn calls() -> impl Strategy<Value = Vec<u8>> {
    let begin = (
        any::<u16>(),
        1_u16..2_000,
        any::<[u8; 4]>(),
        (2_u16..300, 1_u8..20, 1_u8..20),
        (any::<u8>(), 1_u8.., 1_u8..),
    );
    let begin = begin.prop_map(
        |(object_len, packet_len, times, (window, block, losses), (from, len, rate))| {
            let mut octets = object_len.to_be_bytes().to_vec();
            octets.extend(packet_len.to_be_bytes());
            octets.extend([28, 1]);
            octets.extend(times);
            octets.extend(window.to_be_bytes());
            octets.extend([block, losses, from, len, rate]);
            octets
        },
    );
    let question = (0_u8..9, 0_u8..9).prop_map(|(packets, turns)| {
        handed(
            4,
            &[1, 0, 0, 0, 0, 0, 0, 0, packets, 0, 0, 0, 0, 0, 0, 0, turns],
        )
    });
    let report = (
        0_u8..4,
        0_u8..9,
        0_u8..9,
        prop::collection::vec(0_u8..9, 2..8),
    );
    let report = report.prop_map(|(answered, below, turns, ranges)| {
        let mut head = vec![2, 0, 0, 0, answered];
        head.extend([0, 0, 0, 0, 0, 0, 0, below, 0, 0, 0, 0, 0, 0, 0, turns]);
        head.extend(ranges);
        handed(5, &head)
    });
    transfer(begin, vec![question.boxed(), report.boxed()])
}
