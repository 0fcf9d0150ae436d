//! See `lighthaul_fuzz::gateway::target_rules`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::gateway::target_rules(octets));
