//! See `lighthaul_fuzz::gateway::sockets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::gateway::sockets(octets));
