//! Connections captured between hosts that are namespaces; each test takes root, and without it is skipped by name.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test is a world of its own")]

mod arriving;
mod kill;
mod local;
mod testbed;
