//! Circuits at real interfaces. Each test creates two namespaces with a veth link, and needs root; without it, the test
//! is skipped by name.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

mod agent;
mod conformance;
mod kill;
mod many;
mod shaper;
mod testbed;
mod traffic;
