//! The fuzz targets' bodies on stable: random octets, likely ones, and the inputs kept as seeds.

#![expect(unreachable_pub, reason = "the bodies belong to a crate of their own")]

use proptest::prelude::*;

#[path = "../../../fuzz/harmless.rs"]
mod harmless;
#[path = "../../../fuzz/src/io.rs"]
mod io;

use harmless::{Body, assert_harmless, assert_seeds_harmless};

const TARGETS: [(&str, Body); 4] = [
    ("frame", io::frame),
    ("fingerprint", io::fingerprint),
    ("probe", io::probe),
    ("extras", io::extras),
];

/// Frames whose headers may lie.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![0_u32..40, any::<u32>()];
    let body = prop::collection::vec(any::<u8>(), 0..40);
    let frame = (len, any::<u16>(), 0_u8..5, 0_u8..45, body).prop_map(
        |(len, stream, flags, head_len, body)| {
            let head = [
                &len.to_be_bytes()[..],
                &stream.to_be_bytes(),
                &[flags, head_len],
            ];
            [&head.concat()[..], &body].concat()
        },
    );
    prop::collection::vec(frame, 0..8).prop_map(|frames| frames.concat())
}

proptest! {
    #[test]
    fn frames_survive_any_octets(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        assert_harmless(io::frame, &octets);
    }

    #[test]
    fn frames_survive_headers_that_lie(octets in frames()) {
        assert_harmless(io::frame, &octets);
    }

    #[test]
    fn fingerprints_survive_any_text(text in "\\PC{0,80}|[ \n]?sha256:[0-9a-fA-Fgé+-]{60,70}\n?") {
        assert_harmless(io::fingerprint, text.as_bytes());
    }

    #[test]
    fn fingerprints_survive_any_octets(octets in prop::collection::vec(any::<u8>(), 0..100)) {
        assert_harmless(io::fingerprint, &octets);
    }

    #[test]
    fn extras_survive_any_octets(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_harmless(io::extras, &octets);
    }

    #[test]
    fn probes_survive_any_octets(octets in prop::collection::vec(any::<u8>(), 0..1500)) {
        assert_harmless(io::probe, &octets);
    }
}

#[test]
fn what_the_fuzzer_kept_stays_harmless() {
    for (target, body) in TARGETS {
        assert_seeds_harmless(target, body);
    }
}
