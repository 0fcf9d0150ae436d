//! Tests of running labs with hosts and a link. They need root, and are skipped by name without it.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "tests use the real system")]

/// Tests that measure, each alone on the host. `make test` runs them after all others.
mod alone {
    mod accuracy;
}
mod processes;
/// Tests that measure and mostly wait, few at a time. `make test` runs them after busy tests.
mod quiet {
    mod contest;
}
mod start;
mod traffic;
