//! The fuzz targets on stable Rust, with random octets, plausible calls, and the seeds kept in the repository.

#![expect(unreachable_pub, reason = "the bodies belong to a separate crate")]

use proptest::prelude::*;

#[path = "../../../fuzz/harmless.rs"]
mod harmless;
#[path = "../../../fuzz/src/stargate.rs"]
mod stargate;

use harmless::{Body, assert_harmless, assert_seeds_harmless};

const TARGETS: [(&str, Body); 2] = [
    ("stargate_wire", stargate::wire),
    ("stargate_machine", stargate::machine),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn arbitrary_octets_never_panic(
        few in prop::collection::vec(any::<u8>(), 0..40),
        many in prop::collection::vec(any::<u8>(), 0..900),
    ) {
        for (_, body) in TARGETS {
            assert_harmless(body, &few);
            assert_harmless(body, &many);
        }
    }

    #[test]
    fn plausible_calls_never_panic(calls in prop::collection::vec(
        (prop_oneof![Just(0_u8), Just(2), 4_u8..32, 132_u8..160], 0_u8..60, any::<u8>()), 0..200,
    )) {
        let octets = calls.iter().flat_map(|(kind, wait, detail)| [*kind, *wait, *detail]);
        assert_harmless(stargate::machine, &octets.collect::<Vec<_>>());
    }
}

#[test]
fn fuzzer_corpus_never_panics() {
    for (target, body) in TARGETS {
        assert_seeds_harmless(target, body);
    }
}
