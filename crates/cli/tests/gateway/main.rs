//! Two gateways as users run them: real processes on hosts of a lab, and programs without support for gateways.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

mod booked;
mod copies;
mod corruption;
mod direct;
mod draining;
mod killed;
mod outages;
mod pair;
mod path_failover;
mod programs;
/// Tests that measure and mostly wait, few at a time. `make test` runs them after busy tests.
mod quiet {
    mod restarts;
}
mod refusals;
mod resets;
#[expect(dead_code, reason = "tests of copies use the rest")]
#[path = "../cp/running.rs"]
mod running;
#[path = "../cp/schema.rs"]
mod schema;
#[path = "../cp/scratch.rs"]
mod scratch;
mod short_sessions;
#[path = "../cp/stage.rs"]
mod stage;
mod status;
mod transfers;
mod transparent;
mod unresponsive_hosts;
