//! The fuzz targets' bodies on stable: random octets, likely ones, and the inputs kept as seeds.

#![expect(unreachable_pub, reason = "the bodies belong to a separate crate")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

use proptest::prelude::*;

#[path = "../../../fuzz/harmless.rs"]
mod harmless;
#[path = "../../../fuzz/src/launch.rs"]
mod launch;

use harmless::{assert_harmless, assert_seeds_harmless};

proptest! {
    #[test]
    fn parsing_program_files_from_any_octets_never_panics(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        assert_harmless(launch::program, &octets);
    }
}

#[test]
fn inputs_of_the_fuzzer_never_panic() {
    assert_seeds_harmless("launch_elf", launch::program);
}
