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
mod ends;
mod given_up;
mod kill;
#[path = "../../examples/chain/mod.rs"]
mod measured;
mod peer;
mod protected;
mod restart;
mod shaper;
mod site;
mod stores;
mod strangers;
