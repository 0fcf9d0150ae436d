//! See `lighthaul_fuzz::cli::program`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::cli::program(octets));
