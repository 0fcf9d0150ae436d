//! Tests of machines on real sockets, with faulty networks and malicious peers.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "tests use the real system")]

mod after_tls;
mod control;
mod lanes;
mod pair;
mod peers;
mod relay;
