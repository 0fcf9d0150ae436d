//! See `lighthaul_fuzz::gateway::socks`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::gateway::socks(octets));
