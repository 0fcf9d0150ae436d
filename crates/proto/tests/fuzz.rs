//! The fuzz targets' bodies on stable: random octets, likely calls, and the inputs kept as seeds.

#![expect(unreachable_pub, reason = "the bodies belong to a crate of their own")]

use proptest::prelude::*;

#[path = "../../../fuzz/src/fec.rs"]
mod fec;
#[path = "../../../fuzz/src/rbudp.rs"]
mod rbudp;

#[path = "../../../fuzz/src/stripe.rs"]
mod stripe;

/// What a fuzz target does with its octets.
type Body = fn(&[u8]);

/// Octets that begin a transfer and mostly deliver, drop, wait, and now and then talk nonsense.
fn calls() -> impl Strategy<Value = Vec<u8>> {
    let begin = (
        any::<u16>(),
        1_u16..2_000,
        any::<u32>(),
        1_u16..,
        0_u16..500,
        any::<bool>(),
    )
        .prop_map(|(object_len, packet_len, rate, burst, settle, plus)| {
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
        .prop_map(|(round, sent)| vec![4, 0, 0, 11, 1, 0, round, 0, 0, 0, 0, 0, 0, 0, sent]);
    let tally = (1_u8..4, prop::collection::vec(any::<u8>(), 0..6)).prop_map(|(round, octets)| {
        let mut call = vec![5, 0, 0, 3 + octets.len() as u8, 2, 0, round];
        call.extend(octets);
        call
    });
    let pause = (any::<u16>(), any::<u16>()).prop_map(|(after, len)| {
        let mut call = vec![5, 0, 0, 17, 4, 0, 0, 0, 0, 0, 0];
        call.extend(after.to_be_bytes());
        call.extend([0; 6]);
        call.extend(len.to_be_bytes());
        call
    });
    let call = prop_oneof![
        6 => any::<u8>().prop_map(|nth| vec![9, nth]),
        4 => Just(vec![11]),
        4 => (0_u8..4).prop_map(|high| vec![0, high, 1, 2, 3]),
        1 => any::<[u8; 2]>().prop_map(|load| vec![2, load[0], load[1]]),
        1 => any::<[u8; 4]>().prop_map(|load| [vec![12], load.to_vec()].concat()),
        1 => pause,
        1 => Just(vec![8]),
        1 => any::<[u8; 4]>().prop_map(|at| vec![7, at[0], at[1], at[2], at[3]]),
        1 => done,
        1 => tally,
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    (begin, prop::collection::vec(call, 0..400))
        .prop_map(|(begin, calls)| [begin, calls.concat()].concat())
}

/// Octets that begin a message stream and mostly offer, wait and deliver.
fn messages() -> impl Strategy<Value = Vec<u8>> {
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
    (begin, prop::collection::vec(call, 0..400))
        .prop_map(|(begin, calls)| [begin, calls.concat()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn fec_wire_survives_any_octets(octets in prop::collection::vec(any::<u8>(), 0..40)) {
        fec::wire(&octets);
    }

    #[test]
    fn fec_machines_survive_any_octets(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        fec::machines(&octets);
    }

    #[test]
    fn fec_machines_survive_likely_calls(octets in messages()) {
        fec::machines(&octets);
    }

    #[test]
    fn rbudp_wire_survives_any_octets(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        rbudp::wire(&octets);
    }

    #[test]
    fn rbudp_machines_survive_any_octets(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        rbudp::machines(&octets);
    }

    #[test]
    fn stripe_wire_survives_any_octets(octets in prop::collection::vec(any::<u8>(), 0..20)) {
        stripe::wire(&octets);
    }

    #[test]
    fn stripe_machines_survive_any_calls(
        object_len: u16,
        packet_len in 1_u16..2000,
        octets in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let mut begin = object_len.to_be_bytes().to_vec();
        begin.extend(packet_len.to_be_bytes());
        begin.extend(u64::MAX.to_be_bytes());
        stripe::machines(&[begin, octets].concat());
    }

    #[test]
    fn rbudp_machines_survive_likely_calls(octets in calls()) {
        rbudp::machines(&octets);
    }
}

#[test]
fn what_the_fuzzer_kept_stays_harmless() {
    let bodies: [(&str, Body); 6] = [
        ("fec_wire", fec::wire),
        ("fec_machines", fec::machines),
        ("rbudp_wire", rbudp::wire),
        ("rbudp_machines", rbudp::machines),
        ("stripe_wire", stripe::wire),
        ("stripe_machines", stripe::machines),
    ];
    for (target, body) in bodies {
        let folder = format!("{}/../../fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
        for entry in std::fs::read_dir(folder).expect("the fuzzer kept something") {
            body(&std::fs::read(entry.expect("a seed").path()).expect("a seed is a file"));
        }
    }
}
