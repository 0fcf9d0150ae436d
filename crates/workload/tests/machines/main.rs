//! Machines under workloads in virtual time: message streams, pairs of gateways, clusters
//! of them, and flows of TCP.

mod circuit;
mod fec;
#[path = "../../../proto/tests/machines/path.rs"]
mod path;
mod slabs;
mod tcp;
mod token;
