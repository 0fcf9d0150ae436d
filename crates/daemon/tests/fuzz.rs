//! Fuzz targets on stable Rust: random octets, valid-looking octets, and the inputs of the seed corpus.

#![expect(unreachable_pub, reason = "the targets belong to another crate")]

use proptest::prelude::*;

#[path = "../../../fuzz/src/daemon.rs"]
mod daemon;
#[path = "../../../fuzz/harmless.rs"]
mod harmless;

use harmless::{assert_harmless, assert_seeds_harmless};

proptest! {
    #[test]
    fn random_first_octets_never_panic(octets in prop::collection::vec(any::<u8>(), 0..300)) {
        assert_harmless(daemon::client_hello, &octets);
    }

    #[test]
    fn octets_that_start_a_client_hello_never_panic(
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
    fn random_statements_never_panic(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_harmless(daemon::statement, &octets);
    }

    #[test]
    fn statements_with_valid_looking_claims_never_panic(
        name in "[a-zé]{0,9}",
        flags in prop::collection::vec(0_u8..3, 5),
        end: u64,
    ) {
        let mut claim = vec![name.len() as u8];
        claim.extend(name.as_bytes());
        claim.extend(&flags);
        claim.extend(postcard::to_allocvec(&end).expect("a number can be encoded"));
        assert_harmless(daemon::statement, &claim);
    }

    #[test]
    fn random_requests_of_scrapers_never_panic(octets in prop::collection::vec(any::<u8>(), 0..100)) {
        assert_harmless(daemon::scrape_request, &octets);
    }

    #[test]
    fn valid_looking_requests_of_scrapers_never_panic(
        request in "(GET|get|POST|GET )? ?(/|/metrics|/metrics2)?( HTTP/1\\.[01])?(\r\n?(Host: x)?){0,3}",
    ) {
        assert_harmless(daemon::scrape_request, request.as_bytes());
    }
}

#[test]
fn seed_corpus_never_panics() {
    assert_seeds_harmless("client_hello", daemon::client_hello);
    assert_seeds_harmless("statement", daemon::statement);
    assert_seeds_harmless("scrape_request", daemon::scrape_request);
}
