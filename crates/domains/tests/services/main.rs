//! Services of several domains with real sockets, TLS and `SQLite` files.
#![expect(clippy::unwrap_used, reason = "a test")]

mod chain;
#[path = "../../examples/chain/configuration.rs"]
mod configuration;
mod configurations;
mod control;
mod ends;
mod kill;
mod peer;
mod protected;
mod restart;
mod shaper;
mod site;
mod stores;
mod strangers;
