//! Bodies of the fuzz targets on stable Rust, with random octets and with the stored seeds.

#![expect(unreachable_pub, reason = "the bodies belong to a separate crate")]

use proptest::prelude::*;

#[path = "../../../fuzz/harmless.rs"]
mod harmless;
#[path = "../../../fuzz/src/transfer.rs"]
mod transfer;

use harmless::{Body, assert_harmless, assert_seeds_harmless};

const TARGETS: [(&str, Body); 7] = [
    ("message", transfer::message),
    ("manifest", transfer::manifest),
    ("journal", transfer::journal),
    ("stage_log", transfer::stage_log),
    ("delta", transfer::delta),
    ("filter", transfer::filter),
    ("files_from", transfer::files_from),
];

/// Returns octets compressed like a packed manifest.
fn packed(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, plain).expect("memory takes what is written");
    encoder.finish().expect("memory takes what is written")
}

proptest! {
    #[test]
    fn decoding_messages_never_panics(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        assert_harmless(transfer::message, &octets);
    }

    #[test]
    fn sums_of_a_peer_never_break_a_search(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        assert_harmless(transfer::delta, &octets);
    }

    #[test]
    fn parsing_filters_never_panics(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_harmless(transfer::filter, &octets);
    }

    #[test]
    fn decoding_journals_never_panics(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        assert_harmless(transfer::journal, &octets);
    }

    #[test]
    fn decoding_stage_logs_never_panics(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        assert_harmless(transfer::stage_log, &octets);
    }

    #[test]
    fn parsing_lists_of_files_never_panics(text in "([a./{\n\\x00]|\\PC){0,60}") {
        assert_harmless(transfer::files_from, text.as_bytes());
    }

    #[test]
    fn unpacking_manifests_never_panics(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        assert_harmless(transfer::manifest, &octets);
        assert_harmless(transfer::manifest, &packed(&octets));
    }
}

#[test]
fn stored_seeds_never_panic() {
    for (target, body) in TARGETS {
        assert_seeds_harmless(target, body);
    }
}
