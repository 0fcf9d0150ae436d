//! See `lighthaul_fuzz::daemon::scrape_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| lighthaul_fuzz::daemon::scrape_request(octets));
