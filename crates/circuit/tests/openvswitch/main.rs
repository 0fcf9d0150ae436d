//! Circuits in a real Open vSwitch, made by its driver program. Each test runs a switch in a namespace of its own, and
//! needs root, Open vSwitch and Python; without them, the test is skipped by name.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::unwrap_in_result, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

mod conformance;
mod flows;
mod proxy;
/// Tests that measure and mostly wait, few at a time. `make test` runs them after busy tests.
mod quiet {
    mod traffic;
}
mod relay;
mod sending;
mod testbed;
