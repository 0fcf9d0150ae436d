//! See `lighthaul_fuzz::stargate::wire`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::stargate::wire(octets));
