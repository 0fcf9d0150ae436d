//! The fuzz targets' bodies on stable: random octets, and the inputs kept as seeds.

#![expect(unreachable_pub, reason = "the bodies belong to a crate of their own")]

use proptest::prelude::*;

#[path = "../../../fuzz/src/transfer.rs"]
mod transfer;

/// What a fuzz target does with its octets.
type Body = fn(&[u8]);

/// Octets as they are, and as the content of a packed manifest.
fn packed(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, plain).expect("memory takes what is written");
    encoder.finish().expect("memory takes what is written")
}

proptest! {
    #[test]
    fn messages_survive_any_octets(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        transfer::message(&octets);
    }

    #[test]
    fn filters_survive_any_octets(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        transfer::filter(&octets);
    }

    #[test]
    fn journals_survive_any_octets(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        transfer::journal(&octets);
    }

    #[test]
    fn lists_of_files_survive_any_text(text in "([a./{\n\\x00]|\\PC){0,60}") {
        transfer::files_from(text.as_bytes());
    }

    #[test]
    fn manifests_survive_any_octets(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        transfer::manifest(&octets);
        transfer::manifest(&packed(&octets));
    }
}

#[test]
fn what_the_fuzzer_kept_stays_harmless() {
    let bodies: [(&str, Body); 5] = [
        ("message", transfer::message),
        ("manifest", transfer::manifest),
        ("receive_journal", transfer::journal),
        ("filter", transfer::filter),
        ("files_from", transfer::files_from),
    ];
    for (target, body) in bodies {
        let folder = format!("{}/../../fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
        for entry in std::fs::read_dir(folder).expect("the fuzzer kept something") {
            body(&std::fs::read(entry.expect("a seed").path()).expect("a seed is a file"));
        }
    }
}
