//! The protocols' machines in virtual time: each other's peers over paths of all kinds, and among bad peers.
#![expect(clippy::unwrap_used, reason = "a test")]

mod cluster;
mod fec;
mod feedback;
mod model;
mod path;
mod rbudp;
mod rbudp_peers;
mod sabul;
mod sabul_peers;
mod slabs;
mod stripe;
mod token;
mod vbtp;
mod vbtp_run;
