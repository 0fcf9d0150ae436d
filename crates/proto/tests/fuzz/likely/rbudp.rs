use proptest::prelude::*;

use super::{handed, transfer};

pub fn calls() -> impl Strategy<Value = Vec<u8>> {
    let begin = (
        any::<u16>(),
        1_u16..2_000,
        any::<u32>(),
        1_u16..,
        0_u16..500,
        any::<bool>(),
    );
    let begin = begin.prop_map(|(object_len, packet_len, rate, burst, settle, plus)| {
        let mut octets = object_len.to_be_bytes().to_vec();
        octets.extend(packet_len.to_be_bytes());
        octets.push(28);
        octets.extend((u64::from(rate) << 8 | 1).to_be_bytes());
        octets.extend(burst.to_be_bytes());
        octets.extend(settle.to_be_bytes());
        octets.extend([0, 0, 0, u8::from(plus)]);
        octets
    });
    let done = (1_u8..4, 0_u8..8)
        .prop_map(|(round, sent)| handed(4, &[1, 0, round, 0, 0, 0, 0, 0, 0, 0, sent]));
    let tally = (1_u8..4, prop::collection::vec(any::<u8>(), 0..6))
        .prop_map(|(round, octets)| handed(5, &[&[2, 0, round][..], &octets].concat()));
    let pause = (any::<[u8; 2]>(), any::<[u8; 2]>()).prop_map(|(after, len)| {
        let head = [&[4, 0, 0, 0, 0, 0, 0][..], &after, &[0; 6], &len];
        handed(5, &head.concat())
    });
    let absence = any::<[u8; 4]>().prop_map(|load| [vec![12], load.to_vec()].concat());
    let own = [done.boxed(), tally.boxed(), pause.boxed(), absence.boxed()];
    transfer(begin, own.into())
}
