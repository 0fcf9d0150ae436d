//! The protocol machines in virtual time: in pairs over all kinds of paths, and against misbehaving peers.
#![expect(clippy::unwrap_used, reason = "a test")]

mod copy;
mod feedback;
mod model;
mod object;
mod path;
mod rbudp;
mod rbudp_peers;
mod reed_solomon;
mod sabul;
mod sabul_peers;
mod stripe;
mod vbtp;
mod vbtp_run;
