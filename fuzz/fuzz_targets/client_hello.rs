//! See `lighthaul_fuzz::daemon::client_hello`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::daemon::client_hello(octets));
