//! See `lighthaul_fuzz::io::fingerprint`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::io::fingerprint(octets));
