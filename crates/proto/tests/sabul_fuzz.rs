//! The fuzz targets' bodies on stable: random octets, and likely calls.

#![expect(unreachable_pub, reason = "the bodies belong to a crate of their own")]

use proptest::prelude::*;

#[path = "../../../fuzz/src/sabul.rs"]
mod sabul;

/// Octets that begin a transfer and mostly deliver, drop, wait, and now and then talk nonsense.
fn sabul_calls() -> impl Strategy<Value = Vec<u8>> {
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
    let sent = (0_u8..9).prop_map(|till| vec![4, 0, 0, 5, 1, 0, 0, 0, till]);
    let nak = prop::collection::vec((0_u8..4, 1_u8..4), 1..4).prop_map(|ranges| {
        let mut call = vec![5, 0, 0, 1 + 2 * ranges.len() as u8, 3];
        call.extend(
            ranges
                .into_iter()
                .flat_map(|(distance, len)| [distance, len]),
        );
        call
    });
    let call = prop_oneof![
        6 => any::<u8>().prop_map(|nth| vec![9, nth]),
        4 => Just(vec![11]),
        4 => (0_u8..4).prop_map(|high| vec![0, high, 1, 2, 3]),
        1 => any::<[u8; 2]>().prop_map(|load| vec![2, load[0], load[1]]),
        1 => Just(vec![8]),
        1 => any::<[u8; 4]>().prop_map(|at| vec![7, at[0], at[1], at[2], at[3]]),
        1 => sent,
        1 => nak,
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    (begin, prop::collection::vec(call, 0..400))
        .prop_map(|(begin, calls)| [begin, calls.concat()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn sabul_wire_survives_any_octets(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        sabul::wire(&octets);
    }

    #[test]
    fn sabul_machines_survive_any_octets(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        sabul::machines(&octets);
    }

    #[test]
    fn sabul_machines_survive_likely_calls(octets in sabul_calls()) {
        sabul::machines(&octets);
    }
}
