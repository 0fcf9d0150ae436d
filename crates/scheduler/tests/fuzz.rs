//! Runs the fuzz targets on stable Rust: with random bytes, with likely text, and with the stored
//! seeds.

#![expect(unreachable_pub, reason = "the fuzz targets belong to another crate")]

use proptest::prelude::*;

#[path = "../../../fuzz/src/booking.rs"]
mod booking;
#[path = "../../../fuzz/harmless.rs"]
mod harmless;

use harmless::{assert_harmless, assert_seeds_harmless};

/// Claims of an issuer, valid and invalid.
const CLAIMS: &str = r#"\{"iss":"(https://issuer.example/|else)","sub":("ada"|"é"|7),"aud":("lighthaul"|\["x","lighthaul"\]|null),"exp":(2000000001|1|1e9|[0-9]{1,21})(,"nbf":[0-9]{1,20})?(,"scope":("book operate:/x"|\["book"\]|0))?(,"wlcg.groups":\["operate"\])?\}"#;
/// Keys and tokens.
const TOKEN: &str = r#"\{"keys":\[(\{"kty":"(RSA|EC|OKP)","crv":"(P-256|Ed25519)"(,"n":"[A-Za-z0-9_-]{0,9}","e":"AQAB")?(,"x":"[A-Za-z0-9_-]{0,44}")?\})?\]\}\x00(eyJhbGciOiJFZERTQSJ9|e30)\.[A-Za-z0-9_-]{0,20}\.[A-Za-z0-9_-]{0,90}"#;
/// Requests for reservations and for their changes.
const REQUEST: &str = r#"\{("from":"a","to":"b",)?"size":("1.2TB"|[0-9]{1,20}|"7"|null)(,"hold":("PT2H"|"2h 30m"|"P1D"|9000|"30"))?(,"rate_m(ax|in)":("900Mb/s"|1000|"5"|0))?(,"start":("2031-05-01T06:00:00Z"|"now"|[0-9]{1,20}))?(,"commit":(true|1))?\}"#;

/// Jobs, and places of jobs.
const JOB: &str = r#"(\{"sources":\["lh://near/a"(,"s3://b/k")?\],"target":"lh://far/(x|\.\.)/"(,"options":(\{"delete":(true|1)(,"rate":("1Gb/s"|0))?\}|\[\]))?(,"every":("1d"|7))?(,"priority":-?[0-9]{1,11})?\}|(lh|s3|https?|file)://(far|\[::1\]:7)/((home|ada|bob|\.\.?|\{user\}|)/){0,4}(a|\*)?)"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn parsing_claims_from_likely_text_never_panics(text in CLAIMS) {
        assert_harmless(booking::claims, text.as_bytes());
    }

    #[test]
    fn parsing_claims_from_any_octets_never_panics(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_harmless(booking::claims, &octets);
    }

    #[test]
    fn parsing_tokens_from_likely_text_never_panics(text in TOKEN) {
        assert_harmless(booking::token, text.as_bytes());
    }

    #[test]
    fn parsing_key_sets_from_likely_text_never_panics(text in TOKEN) {
        assert_harmless(booking::key_set, text.split('\0').next().unwrap_or_default().as_bytes());
    }

    #[test]
    fn parsing_requests_from_likely_text_never_panics(text in REQUEST) {
        assert_harmless(booking::asked, text.as_bytes());
    }

    #[test]
    fn parsing_jobs_and_places_from_likely_text_never_panics(text in JOB) {
        assert_harmless(booking::asked, text.as_bytes());
    }

    #[test]
    fn parsing_requests_and_answers_from_any_octets_never_panics(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_harmless(booking::asked, &octets);
        assert_harmless(booking::answered, &octets);
    }

    #[test]
    fn parsing_tokens_from_any_octets_never_panics(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_harmless(booking::token, &octets);
    }
}

#[test]
fn stored_seeds_cause_no_panic() {
    assert_seeds_harmless("jwt_token", booking::token);
    assert_seeds_harmless("jwt_claims", booking::claims);
    assert_seeds_harmless("identity_jwks", booking::key_set);
    assert_seeds_harmless("api_extract", booking::asked);
    assert_seeds_harmless("client", booking::answered);
}
