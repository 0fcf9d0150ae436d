//! Machines under workloads in virtual time: message streams, pairs of gateways, and clusters of them.

mod fec;
#[path = "../../../proto/tests/machines/path.rs"]
mod path;
mod slabs;
mod token;
