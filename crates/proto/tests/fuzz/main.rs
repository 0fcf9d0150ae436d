//! The fuzz targets' bodies on stable: random octets, likely calls, and the inputs kept as seeds.

#![expect(unreachable_pub, reason = "the bodies belong to a crate of their own")]

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
#[path = "../../../../fuzz/src/slabs.rs"]
mod slabs;
#[path = "../../../../fuzz/src/stripe.rs"]
mod stripe;
#[path = "../../../../fuzz/src/token.rs"]
mod token;
#[path = "../../../../fuzz/src/vbtp.rs"]
mod vbtp;

use harmless::{Body, assert_harmless, assert_seeds_harmless};

const TARGETS: [(&str, Body); 15] = [
    ("fec_wire", fec::wire),
    ("fec_machines", fec::machines),
    ("rbudp_wire", rbudp::wire),
    ("rbudp_machines", rbudp::machines),
    ("sabul_wire", sabul::wire),
    ("sabul_machines", sabul::machines),
    ("slabs_wire", slabs::wire),
    ("slabs_machines", slabs::machines),
    ("stripe_wire", stripe::wire),
    ("stripe_machines", stripe::machines),
    ("token_wire", token::wire),
    ("token_machine", token::machine),
    ("trc", vbtp::trc),
    ("vbtp_wire", vbtp::wire),
    ("vbtp_machines", vbtp::machines),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_octets_are_harmless(
        few in prop::collection::vec(any::<u8>(), 0..40),
        many in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        for (_, body) in TARGETS {
            assert_harmless(body, &few);
            assert_harmless(body, &many);
        }
    }

    #[test]
    fn likely_calls_of_fec_are_harmless(octets in likely::fec::calls()) {
        assert_harmless(fec::machines, &octets);
    }

    #[test]
    fn likely_calls_of_rbudp_are_harmless(octets in likely::rbudp::calls()) {
        assert_harmless(rbudp::machines, &octets);
    }

    #[test]
    fn likely_calls_of_sabul_are_harmless(octets in likely::sabul::calls()) {
        assert_harmless(sabul::machines, &octets);
    }

    #[test]
    fn likely_calls_of_slabs_are_harmless(octets in likely::slabs::calls()) {
        assert_harmless(slabs::machines, &octets);
    }

    #[test]
    fn likely_calls_of_stripe_are_harmless(octets in likely::stripe::calls()) {
        assert_harmless(stripe::machines, &octets);
    }

    #[test]
    fn likely_calls_of_a_cluster_are_harmless(octets in likely::token::calls()) {
        assert_harmless(token::machine, &octets);
    }

    #[test]
    fn likely_calls_of_vbtp_are_harmless(octets in likely::vbtp::calls()) {
        assert_harmless(vbtp::machines, &octets);
    }

    #[test]
    fn likely_vectors_are_harmless(
        text in "([0-9]{1,4}(s|ms|h|)-[0-9.]{1,5}(s|us|) [0-9]{1,4} ?(Mb/s|G|),? ?){1,4}",
    ) {
        assert_harmless(vbtp::trc, text.as_bytes());
    }
}

#[test]
fn what_the_fuzzer_kept_stays_harmless() {
    for (target, body) in TARGETS {
        assert_seeds_harmless(target, body);
    }
}
