//! Tests of a real scheduler on loopback, over HTTP and HTTPS and with real tokens.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test has sockets and threads")]

mod bad_input;
#[expect(dead_code, reason = "used by other tests")]
#[path = "../postgres/server.rs"]
mod database;
mod described;
mod events;
mod faulty_store;
mod forward;
mod health;
mod issuer;
mod jobs;
mod life;
mod memory;
mod race;
mod strangers;
mod stuck;
mod test_server;
mod timeouts;
mod tls;
