//! Tests of running labs with hosts and a link. They need root, and are skipped by name without it.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "tests use the real system")]

mod accuracy;
mod alone;
mod cell;
mod contest;
mod traffic;
