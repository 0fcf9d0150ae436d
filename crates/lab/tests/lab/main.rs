//! Labs that run: each test makes hosts and a link, and needs root; without it, it is skipped by name.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test is a world of its own")]

mod accuracy;
mod alone;
mod cell;
mod contest;
mod traffic;
