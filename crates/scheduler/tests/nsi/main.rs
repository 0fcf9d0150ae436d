//! Provider of NSI with requesters over real sockets, and restarts.

#![expect(clippy::unwrap_used, reason = "a test")]

mod foreign;
mod instance;
mod leases;
mod listener;
mod processes;
