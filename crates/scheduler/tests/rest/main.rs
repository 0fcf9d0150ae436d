//! Tests of a real scheduler on loopback, over HTTP and HTTPS and with real tokens.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test has sockets and threads")]

mod bad_input;
mod described;
mod events;
mod forward;
mod issuer;
mod life;
mod race;
mod strangers;
mod test_server;
mod tls;
