//! Machines under workloads in virtual time: message streams, pairs of gateways, and clusters of them.
#![expect(clippy::unwrap_used, reason = "a test")]

mod fec;
#[path = "../../../proto/tests/machines/path.rs"]
mod path;
mod slabs;
mod token;
