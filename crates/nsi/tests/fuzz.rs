//! Runs the fuzz targets on stable Rust: with random bytes, and with likely text.

#![expect(unreachable_pub, reason = "the fuzz targets belong to another crate")]

use proptest::prelude::*;

#[path = "../../../fuzz/harmless.rs"]
mod harmless;
#[path = "../../../fuzz/src/nsi.rs"]
mod nsi;

use harmless::{assert_harmless, assert_seeds_harmless};

/// Messages, valid and invalid.
const MESSAGE: &str = "<Envelope xmlns=\"http://schemas.xmlsoap.org/soap/envelope/\">(<Header><nsiHeader xmlns=\"http://schemas.ogf.org/nsi/2013/12/framework/headers\"/></Header>)?<Body>(<f:Fault xmlns:f=\"http://schemas.xmlsoap.org/soap/envelope/\" xmlns=\"\"><faultstring>[a-z&;]{0,4}</faultstring>(<detail><serviceException><nsaId>n</nsaId><errorId>[0-9]{0,6}</errorId><text/></serviceException></detail>)?</f:Fault>)?</Body></Envelope>";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn parsing_messages_from_likely_text_never_panics(text in MESSAGE) {
        assert_harmless(nsi::message, text.as_bytes());
    }

    #[test]
    fn parsing_labels_from_likely_text_never_panics(text in "[0-9]{1,4}([-,][0-9]{1,4}){0,3}") {
        assert_harmless(nsi::message, text.as_bytes());
    }

    #[test]
    fn parsing_messages_from_any_octets_never_panics(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_harmless(nsi::message, &octets);
    }
}

#[test]
fn stored_seeds_cause_no_panic() {
    assert_seeds_harmless("nsi_message", nsi::message);
}
