//! Circuits at real interfaces. Each test creates two namespaces with a veth link, and needs root; without it, the test
//! is skipped by name.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

mod agent;
/// Tests that measure, each alone on the host. `make test` runs them after all others.
mod alone {
    mod many;
    mod vectors;
}
mod changes;
mod conformance;
mod kill;
/// Tests that measure and mostly wait, few at a time. `make test` runs them after busy tests.
mod quiet {
    mod rates;
}
mod shaper;
mod testbed;
mod traffic;
