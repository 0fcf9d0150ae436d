//! See `lighthaul_fuzz::transfer::files_from`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::transfer::files_from(octets));
