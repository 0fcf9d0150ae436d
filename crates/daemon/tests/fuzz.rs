//! The fuzz targets' bodies on stable: random octets, likely ones, and the inputs kept as seeds.

#![expect(unreachable_pub, reason = "the bodies belong to a crate of their own")]

use proptest::prelude::*;

#[path = "../../../fuzz/src/daemon.rs"]
mod daemon;
#[path = "../../../fuzz/harmless.rs"]
mod harmless;

use harmless::{assert_harmless, assert_seeds_harmless};

proptest! {
    #[test]
    fn first_octets_survive_anything(octets in prop::collection::vec(any::<u8>(), 0..300)) {
        assert_harmless(daemon::client_hello, &octets);
    }

    #[test]
    fn first_octets_survive_what_begins_as_a_hello(
        version in 0_u8..5,
        len in prop_oneof![0_u16..9, 4080..4100_u16, any::<u16>()],
        kind in 0_u8..3,
        rest in 0_usize..4100,
    ) {
        let mut octets = vec![22, 3, version];
        octets.extend(len.to_be_bytes());
        octets.push(kind);
        octets.resize(octets.len() + rest, 7);
        assert_harmless(daemon::client_hello, &octets);
    }

    #[test]
    fn statements_survive_any_octets(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_harmless(daemon::statement, &octets);
    }

    #[test]
    fn statements_survive_likely_claims(
        name in "[a-zé]{0,9}",
        flags in prop::collection::vec(0_u8..3, 5),
        end: u64,
    ) {
        let mut claim = vec![name.len() as u8];
        claim.extend(name.as_bytes());
        claim.extend(&flags);
        claim.extend(postcard::to_allocvec(&end).expect("a number can be written"));
        assert_harmless(daemon::statement, &claim);
    }
}

#[test]
fn what_the_fuzzer_kept_stays_harmless() {
    assert_seeds_harmless("client_hello", daemon::client_hello);
    assert_seeds_harmless("statement", daemon::statement);
}
