//! See `lighthaul_fuzz::stargate::machine`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::stargate::machine(octets));
