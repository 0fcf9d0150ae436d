//! Execution of fuzz bodies in the tests of other crates, which include this file.

use std::panic::catch_unwind;

/// Body of a fuzz target. It panics if it finds a fault.
pub type Body = fn(&[u8]);

/// Fails if the body panics, and prints the octets.
pub fn assert_harmless(body: Body, octets: &[u8]) {
    let outcome = catch_unwind(|| body(octets));
    assert!(outcome.is_ok(), "the body fails on {octets:02x?}");
}

/// Does the same for every stored seed of the target.
pub fn assert_seeds_harmless(target: &str, body: Body) {
    let folder = format!("{}/../../fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
    let seeds = std::fs::read_dir(folder).expect("the target has seeds");
    for path in seeds.map(|seed| seed.expect("a seed").path()) {
        assert_harmless(body, &std::fs::read(path).expect("a seed is a file"));
    }
}
