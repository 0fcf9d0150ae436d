//! VBTP's fuzz bodies on stable: random octets, likely calls, and the inputs kept as seeds.

#![expect(unreachable_pub, reason = "the bodies belong to a crate of their own")]

use proptest::prelude::*;

#[path = "../../../fuzz/src/vbtp.rs"]
mod vbtp;

/// What a fuzz target does with its octets.
type Body = fn(&[u8]);

/// Octets that begin a transfer and mostly deliver, drop, wait, and now and then talk nonsense.
fn calls() -> impl Strategy<Value = Vec<u8>> {
    let begin = (
        any::<u16>(),
        1_u16..2_000,
        any::<[u8; 6]>(),
        (2_u16..300, 1_u8..20, 1_u8..20),
        (any::<u8>(), 1_u8.., 1_u8..),
    )
        .prop_map(
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
        vec![
            4, 0, 0, 17, 1, 0, 0, 0, 0, 0, 0, 0, packets, 0, 0, 0, 0, 0, 0, 0, turns,
        ]
    });
    let report = (
        0_u8..4,
        0_u8..9,
        0_u8..9,
        prop::collection::vec(0_u8..9, 2..8),
    )
        .prop_map(|(answered, below, turns, ranges)| {
            let mut call = vec![5, 0, 0, 21 + ranges.len() as u8, 2, 0, 0, 0, answered];
            call.extend([0, 0, 0, 0, 0, 0, 0, below, 0, 0, 0, 0, 0, 0, 0, turns]);
            call.extend(ranges);
            call
        });
    let call = prop_oneof![
        6 => any::<u8>().prop_map(|nth| vec![9, nth]),
        4 => Just(vec![11]),
        4 => (0_u8..4).prop_map(|high| vec![0, high, 1, 2, 3]),
        1 => any::<[u8; 2]>().prop_map(|load| vec![2, load[0], load[1]]),
        1 => Just(vec![8]),
        1 => any::<[u8; 4]>().prop_map(|at| vec![7, at[0], at[1], at[2], at[3]]),
        1 => question,
        1 => report,
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    (begin, prop::collection::vec(call, 0..400))
        .prop_map(|(begin, calls)| [begin, calls.concat()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn wire_survives_any_octets(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        vbtp::wire(&octets);
    }

    #[test]
    fn machines_survive_any_octets(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        vbtp::machines(&octets);
    }

    #[test]
    fn machines_survive_likely_calls(octets in calls()) {
        vbtp::machines(&octets);
    }

    #[test]
    fn vectors_survive_likely_texts(text in "([0-9]{1,4}(s|ms|h|)-[0-9.]{1,5}(s|us|) [0-9]{1,4} ?(Mb/s|G|),? ?){1,4}") {
        vbtp::trc(text.as_bytes());
    }
}

#[test]
fn what_the_fuzzer_kept_stays_harmless() {
    let bodies: [(&str, Body); 3] = [
        ("vbtp_wire", vbtp::wire),
        ("vbtp_machines", vbtp::machines),
        ("trc", vbtp::trc),
    ];
    for (target, body) in bodies {
        let folder = format!("{}/../../fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
        for entry in std::fs::read_dir(folder).expect("the fuzzer kept something") {
            body(&std::fs::read(entry.expect("a seed").path()).expect("a seed is a file"));
        }
    }
}
