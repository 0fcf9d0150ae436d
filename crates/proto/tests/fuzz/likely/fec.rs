use proptest::prelude::*;

use super::calls_behind;

/// Generates the start of a message stream, followed mostly by calls that offer, wait and deliver.
pub fn calls() -> impl Strategy<Value = Vec<u8>> {
    let code = (1_u8..8, 0_u8..4, 1_u8..60, 2_u8..12);
    let begin = (code, any::<u16>(), 0_u32..1 << 20, any::<u8>(), 1_u32..);
    let begin = begin.prop_map(
        |((sources, repairs, len, blocks), linger, deadline, late, rate)| {
            let mut octets = vec![sources, repairs, len, blocks];
            octets.extend(linger.to_be_bytes());
            octets.extend(deadline.to_be_bytes());
            octets.push(late);
            octets.extend((u64::from(rate) << 6).to_be_bytes());
            octets.extend([1, 0, 0, 0, 0, 9]);
            octets
        },
    );
    let packet =
        (0_u8..9, 0_u8..5, 0_u8..10, any::<u8>()).prop_map(|(block, count, symbol, len)| {
            vec![
                4, 0, len, 12, 0, 0, 0, 0, 0, block, count, symbol, 0, 0, 0, 0,
            ]
        });
    let call = prop_oneof![
        6 => any::<u8>().prop_map(|len| vec![0, len]),
        6 => any::<u8>().prop_map(|nth| vec![6, nth]),
        4 => (0_u8..3).prop_map(|high| vec![2, 0, high << 4, 2, 3]),
        2 => packet,
        1 => Just(vec![5]),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    calls_behind(begin, call)
}
