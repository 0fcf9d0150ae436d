//! The fuzz targets on stable Rust, with random octets, plausible calls, and the seeds kept in the repository.

#![expect(unreachable_pub, reason = "the bodies belong to a separate crate")]

use proptest::prelude::*;

#[path = "../../../../fuzz/src/fec.rs"]
mod fec;
#[path = "../../../../fuzz/harmless.rs"]
mod harmless;
mod likely;
#[path = "../../../../fuzz/src/pair.rs"]
mod pair;
#[path = "../../../../fuzz/src/rbudp.rs"]
mod rbudp;
#[path = "../../../../fuzz/src/sabul.rs"]
mod sabul;
#[path = "../../../../fuzz/src/stripe.rs"]
mod stripe;
#[path = "../../../../fuzz/src/vbtp.rs"]
mod vbtp;

use harmless::{Body, assert_harmless, assert_seeds_harmless};

const TARGETS: [(&str, Body); 11] = [
    ("fec_wire", fec::wire),
    ("fec_machines", fec::machines),
    ("rbudp_wire", rbudp::wire),
    ("rbudp_machines", rbudp::machines),
    ("sabul_wire", sabul::wire),
    ("sabul_machines", sabul::machines),
    ("stripe_wire", stripe::wire),
    ("stripe_machines", stripe::machines),
    ("trc", vbtp::trc),
    ("vbtp_wire", vbtp::wire),
    ("vbtp_machines", vbtp::machines),
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
    fn plausible_fec_calls_never_panic(octets in likely::fec::calls()) {
        assert_harmless(fec::machines, &octets);
    }

    #[test]
    fn plausible_rbudp_calls_never_panic(octets in likely::rbudp::calls()) {
        assert_harmless(rbudp::machines, &octets);
    }

    #[test]
    fn plausible_sabul_calls_never_panic(octets in likely::sabul::calls()) {
        assert_harmless(sabul::machines, &octets);
    }

    #[test]
    fn plausible_stripe_calls_never_panic(octets in likely::stripe::calls()) {
        assert_harmless(stripe::machines, &octets);
    }

    #[test]
    fn plausible_vbtp_calls_never_panic(octets in likely::vbtp::calls()) {
        assert_harmless(vbtp::machines, &octets);
    }

    #[test]
    fn plausible_vectors_never_panic(
        text in "([0-9]{1,4}(s|ms|h|)-[0-9.]{1,5}(s|us|) [0-9]{1,4} ?(Mb/s|G|),? ?){1,4}",
    ) {
        assert_harmless(vbtp::trc, text.as_bytes());
    }
}

#[test]
fn fuzzer_corpus_never_panics() {
    for (target, body) in TARGETS {
        assert_seeds_harmless(target, body);
    }
}
