//! See `lighthaul_fuzz::daemon::statement`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::daemon::statement(octets));
