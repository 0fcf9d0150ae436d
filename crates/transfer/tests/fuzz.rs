//! The fuzz targets' bodies on stable: random octets, and the inputs kept as seeds.

#![expect(unreachable_pub, reason = "the bodies belong to a crate of their own")]

use proptest::prelude::*;

#[path = "../../../fuzz/harmless.rs"]
mod harmless;
#[path = "../../../fuzz/src/transfer.rs"]
mod transfer;

use harmless::{Body, assert_harmless, assert_seeds_harmless};

const TARGETS: [(&str, Body); 5] = [
    ("message", transfer::message),
    ("manifest", transfer::manifest),
    ("receive_journal", transfer::journal),
    ("filter", transfer::filter),
    ("files_from", transfer::files_from),
];

/// Octets as they are, and as the content of a packed manifest.
fn packed(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, plain).expect("memory takes what is written");
    encoder.finish().expect("memory takes what is written")
}

proptest! {
    #[test]
    fn messages_survive_any_octets(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        assert_harmless(transfer::message, &octets);
    }

    #[test]
    fn filters_survive_any_octets(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_harmless(transfer::filter, &octets);
    }

    #[test]
    fn journals_survive_any_octets(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        assert_harmless(transfer::journal, &octets);
    }

    #[test]
    fn lists_of_files_survive_any_text(text in "([a./{\n\\x00]|\\PC){0,60}") {
        assert_harmless(transfer::files_from, text.as_bytes());
    }

    #[test]
    fn manifests_survive_any_octets(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        assert_harmless(transfer::manifest, &octets);
        assert_harmless(transfer::manifest, &packed(&octets));
    }
}

#[test]
fn what_the_fuzzer_kept_stays_harmless() {
    for (target, body) in TARGETS {
        assert_seeds_harmless(target, body);
    }
}
