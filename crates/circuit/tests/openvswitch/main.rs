//! Circuits in a real Open vSwitch, made by its driver program. Each test runs a switch in a namespace of its own, and
//! needs root, Open vSwitch and Python; without them, the test is skipped by name.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::unwrap_in_result, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

/// Tests that measure, each alone on the host. `make test` runs them after all others.
mod alone {
    mod traffic;
}
mod conformance;
mod flows;
mod proxy;
mod testbed;
