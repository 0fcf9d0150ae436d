//! Machines on real sockets, and what strangers and bad peers can do to them.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test is a world of its own")]

mod control;
mod lanes;
mod left;
mod pair;
mod peers;
mod relay;
