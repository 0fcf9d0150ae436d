//! The fuzz targets' bodies on stable: random octets, likely ones, and the inputs kept as seeds.

#![expect(unreachable_pub, reason = "the bodies belong to a separate crate")]

use proptest::prelude::*;

#[path = "../../../fuzz/harmless.rs"]
mod harmless;
#[path = "../../../fuzz/src/stream.rs"]
mod stream;

use harmless::{assert_harmless, assert_seeds_harmless};

proptest! {
    #[test]
    fn frames_are_parsed_in_any_pieces(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        assert_harmless(stream::frames, &octets);
    }

    #[test]
    fn prefixed_frames_are_parsed_in_any_pieces(lens in prop::collection::vec(0_u32..320, 0..6)) {
        let mut octets = vec![3];
        for len in lens {
            octets.extend(len.to_be_bytes());
            octets.resize(octets.len() + len as usize, b'\n');
        }
        assert_harmless(stream::frames, &octets);
    }

    #[test]
    fn rings_never_panic_on_any_datagrams(
        config in (1_u8..16, 0_u8..5, 1_u8..60, 2_u8..8),
        datagrams in prop::collection::vec((0_u8..12, 0_u8..17, 0_u8..20, 0_u8..64, any::<u8>()), 0..80),
    ) {
        let mut octets = vec![config.0, config.1, config.2, config.3];
        for (block, count, symbol, len, octet) in datagrams {
            octets.extend([block, count, symbol, len, octet]);
        }
        assert_harmless(stream::coded, &octets);
    }
}

#[test]
fn inputs_of_the_fuzzer_never_panic() {
    assert_seeds_harmless("frames", stream::frames);
    assert_seeds_harmless("coded", stream::coded);
}
