//! Circuits in a real NETCONF server, made by its driver program over ssh. Each test runs netconfd of yuma123 with a
//! part of the model `openconfig-qos`, and needs root, ssh and Python; without them, or before `make test` has unpacked the server, the
//! test is skipped by name.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::unwrap_in_result, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

mod client;
mod conformance;
mod lost;
mod objects;
mod proxy;
/// Tests that measure and mostly wait, few at a time. `make test` runs them after busy tests.
mod quiet {
    mod traffic;
}
mod refusals;
#[path = "../openvswitch/relay.rs"]
mod relay;
#[path = "../openvswitch/sending.rs"]
mod sending;
mod testbed;
