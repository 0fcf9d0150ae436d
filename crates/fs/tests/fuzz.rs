//! Bodies of the fuzz targets on the stable compiler, with random octets, likely ones, and the
//! stored seeds.

#![expect(unreachable_pub, reason = "the bodies belong to another crate")]

use proptest::prelude::*;

#[path = "../../../fuzz/harmless.rs"]
mod harmless;
#[path = "../../../fuzz/src/io.rs"]
mod io;

use harmless::{Body, assert_harmless, assert_seeds_harmless};

const TARGETS: [(&str, Body); 5] = [
    ("crypto_tls", io::record),
    ("frame", io::frame),
    ("fingerprint", io::fingerprint),
    ("probe", io::probe),
    ("extras", io::extras),
];

/// Generates frames whose headers may be wrong.
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
    fn frame_decoder_never_panics_on_random_octets(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        assert_harmless(io::frame, &octets);
    }

    #[test]
    fn frame_decoder_never_panics_on_wrong_headers(octets in frames()) {
        assert_harmless(io::frame, &octets);
    }

    #[test]
    fn fingerprint_parser_never_panics_on_any_text(text in "\\PC{0,80}|[ \n]?sha256:[0-9a-fA-Fgé+-]{60,70}\n?") {
        assert_harmless(io::fingerprint, text.as_bytes());
    }

    #[test]
    fn fingerprint_parser_never_panics_on_random_octets(octets in prop::collection::vec(any::<u8>(), 0..100)) {
        assert_harmless(io::fingerprint, &octets);
    }

    #[test]
    fn tls_records_end_at_the_encoded_length(lens in prop::collection::vec(0_u16..40, 0..8), rest in prop::collection::vec(any::<u8>(), 0..60)) {
        let record = |len: u16| [&[22, 3, 3][..], &len.to_be_bytes(), &vec![7; len.into()]].concat();
        let records: Vec<u8> = lens.into_iter().flat_map(record).collect();
        assert_harmless(io::record, &[records, rest].concat());
    }

    #[test]
    fn metadata_decoder_never_panics_on_random_octets(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_harmless(io::extras, &octets);
    }

    #[test]
    fn probe_decoder_never_panics_on_random_octets(octets in prop::collection::vec(any::<u8>(), 0..1500)) {
        assert_harmless(io::probe, &octets);
    }
}

#[test]
fn stored_fuzzer_inputs_never_panic() {
    for (target, body) in TARGETS {
        assert_seeds_harmless(target, body);
    }
}
