//! Services of several domains with real sockets, TLS and `SQLite` files.
#![expect(clippy::unwrap_used, reason = "a test")]

/// Tests that measure, each alone on the host. `make test` runs them after all others.
mod alone {
    mod targets;
}
mod bad_days;
mod chain;
mod configurations;
mod control;
#[expect(
    dead_code,
    clippy::disallowed_methods,
    reason = "tests of the driver use the rest; it is a server for a test"
)]
#[path = "../../../circuit/tests/tl1/emulator.rs"]
mod emulator;
mod ends;
mod given_up;
mod kill;
#[path = "../../examples/chain/mod.rs"]
mod measured;
mod peer;
mod protected;
mod recording;
#[expect(
    dead_code,
    clippy::disallowed_methods,
    reason = "tests of the driver use the rest; it is a server for a test"
)]
#[path = "../../../circuit/tests/tl1/replies.rs"]
mod replies;
mod restart;
mod shaper;
mod site;
mod stores;
mod strangers;
mod switch;
