//! See `lighthaul_fuzz::base::quantity`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::base::quantity(octets));
