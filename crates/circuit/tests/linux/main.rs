//! Circuits at real interfaces: each test makes two namespaces and a veth between them, and needs root; without it, it
//! is skipped by name.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test is a world of its own")]

mod agent;
mod kill;
mod many;
mod shaper;
mod testbed;
mod traffic;
