//! The fuzz targets' bodies on stable: random octets, likely ones, and the inputs kept as seeds.

#![expect(unreachable_pub, reason = "the bodies belong to a separate crate")]

use proptest::prelude::*;

#[path = "../../../fuzz/src/base.rs"]
mod base;
#[path = "../../../fuzz/harmless.rs"]
mod harmless;

use harmless::{assert_harmless, assert_seeds_harmless};

proptest! {
    #[test]
    fn parsing_quantities_from_any_text_never_panics(text in "\\PC{0,40}", octets in prop::collection::vec(any::<u8>(), 0..40)) {
        assert_harmless(base::quantity, text.as_bytes());
        assert_harmless(base::quantity, &octets);
    }

    #[test]
    fn parsing_quantities_from_likely_text_never_panics(
        number in "[0-9.,]{0,21} ?(([kMGT]?(i?B|bit(/s)?|b/s|bps)?)|(h|m|s|ms|days|ns))[0-9]{0,3}(m|s)?",
        time in "([0-9]{4}-[0-9]{2}-[0-9]{2}[T ])?[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{0,10})?)?(Z|[+-][0-9]{2}:?[0-9]{0,2})?",
        table in "((Mon-|sat-|sunday-)?[0-9]{1,2}:[0-9]{2},(off|[0-9]{1,3}[MG](bit)?) ?){1,4}",
    ) {
        for text in [number, time, table] {
            assert_harmless(base::quantity, text.as_bytes());
        }
    }
}

#[test]
fn inputs_of_the_fuzzer_never_panic() {
    assert_seeds_harmless("quantity", base::quantity);
}
