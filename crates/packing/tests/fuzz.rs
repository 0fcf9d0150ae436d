//! The fuzz target's body on stable: random octets, likely ones, and the inputs kept as seeds.

#![expect(unreachable_pub, reason = "the bodies belong to a separate crate")]

use proptest::prelude::*;

#[path = "../../../fuzz/harmless.rs"]
mod harmless;
#[path = "../../../fuzz/src/packing.rs"]
mod packing;

use harmless::{assert_harmless, assert_seeds_harmless};

proptest! {
    #[test]
    fn octets_are_read_or_refused(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        assert_harmless(packing::packing, &octets);
    }

    #[test]
    fn texts_are_read_or_refused(text in "[A-C] \\{ ([a-c]: (\\[?(u8|f32|text)(; ?[0-9]{1,9})?\\]?),? ?){0,4}\\}?") {
        assert_harmless(packing::packing, format!("{text}\0\u{81}").as_bytes());
    }
}

#[test]
fn seeds_are_harmless() {
    assert_seeds_harmless("packing", packing::packing);
}
