//! Captured connections between hosts in namespaces. Each test needs root; without it, the test is skipped by name.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

mod arriving;
mod kill;
mod local;
mod testbed;
