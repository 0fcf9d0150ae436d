//! The fuzz targets on stable Rust, with random octets, plausible calls, and the seeds kept in the repository.

#![expect(unreachable_pub, reason = "the bodies belong to a separate crate")]

use proptest::prelude::*;

#[path = "../../../../fuzz/harmless.rs"]
mod harmless;
mod likely;
#[path = "../../../../fuzz/src/slabs.rs"]
mod slabs;
#[path = "../../../../fuzz/src/token.rs"]
mod token;

use harmless::{Body, assert_harmless, assert_seeds_harmless};

const TARGETS: [(&str, Body); 4] = [
    ("slabs_wire", slabs::wire),
    ("slabs_machines", slabs::machines),
    ("token_wire", token::wire),
    ("token_machine", token::machine),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_octets_never_panic(
        few in prop::collection::vec(any::<u8>(), 0..40),
        many in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        for (_, body) in TARGETS {
            assert_harmless(body, &few);
            assert_harmless(body, &many);
        }
    }

    #[test]
    fn plausible_slabs_calls_never_panic(octets in likely::slabs::calls()) {
        assert_harmless(slabs::machines, &octets);
    }

    #[test]
    fn plausible_token_calls_never_panic(octets in likely::token::calls()) {
        assert_harmless(token::machine, &octets);
    }
}

#[test]
fn fuzzer_corpus_never_panics() {
    for (target, body) in TARGETS {
        assert_seeds_harmless(target, body);
    }
}
