//! Fuzz targets on stable Rust: random octets, valid-looking lines, and the inputs of the seed corpus.

#![expect(unreachable_pub, reason = "the targets belong to another crate")]

use proptest::prelude::*;

#[path = "../../../fuzz/harmless.rs"]
mod harmless;
#[path = "../../../fuzz/src/remote.rs"]
mod remote;

use harmless::{assert_harmless, assert_seeds_harmless};

proptest! {
    #[test]
    fn random_octets_of_a_login_never_panic(octets in prop::collection::vec(any::<u8>(), 0..300)) {
        assert_harmless(remote::greeting, &octets);
    }

    #[test]
    fn random_reports_never_panic(
        text in "((\\$ )?(lighthaul-(1|start)|lighthaul|\\PC{0,5})( (installed|copy|copied|missing|other|unwritten|unusable|-?[0-9]{0,12}|\\PC{0,90})){0,5}\r?\n){0,4}",
    ) {
        assert_harmless(remote::greeting, text.as_bytes());
    }
}

#[test]
fn seed_corpus_never_panics() {
    assert_seeds_harmless("ssh_greeting", remote::greeting);
}
