//! Object stores: copies with a real S3 server, through a proxy that injects faults.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

mod checksums;
mod clouds;
mod copies;
mod credentials;
mod deletion;
mod faults;
mod gate;
mod google;
mod keys;
mod lost_answers;
mod many_keys;
mod options;
mod places;
mod proxy;
mod relays;
mod resume;
#[expect(dead_code, reason = "tests of copies use the rest")]
#[path = "../cp/running.rs"]
mod running;
#[path = "../cp/scratch.rs"]
mod scratch;
mod served;
mod served_bounds;
mod served_conditions;
mod served_daemon;
mod served_end;
mod served_lists;
mod served_names;
mod served_reads;
mod served_resume;
mod server;
mod verified;
mod web;
