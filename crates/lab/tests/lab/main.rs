//! Tests of running labs with hosts and a link. They need root, and are skipped by name without it.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "tests use the real system")]

/// Tests that measure, each alone on the host. `make test` runs them after all others.
mod alone {
    mod accuracy;
    mod contest;
}
mod processes;
mod start;
mod traffic;
