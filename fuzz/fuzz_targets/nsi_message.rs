//! See `lighthaul_fuzz::nsi::message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::nsi::message(octets));
