//! See `lighthaul_fuzz::gateway::local_address`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::gateway::local_address(octets));
