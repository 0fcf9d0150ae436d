//! How the rooms' own tests run the bodies of fuzz targets; they include this file.

use std::panic::catch_unwind;

/// What a fuzz target does with its octets: it panics where something is broken.
pub type Body = fn(&[u8]);

/// Fails where the body does, and says on what.
pub fn assert_harmless(body: Body, octets: &[u8]) {
    let outcome = catch_unwind(|| body(octets));
    assert!(outcome.is_ok(), "the body fails on {octets:02x?}");
}

/// The same for every input that was kept for the target.
pub fn assert_seeds_harmless(target: &str, body: Body) {
    let folder = format!("{}/../../fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
    let seeds = std::fs::read_dir(folder).expect("something was kept");
    for path in seeds.map(|seed| seed.expect("a seed").path()) {
        assert_harmless(body, &std::fs::read(path).expect("a seed is a file"));
    }
}
