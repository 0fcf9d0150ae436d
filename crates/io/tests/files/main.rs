//! What is done to files, on real file systems.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test is a world of its own")]

mod hard_link;
mod metadata;
mod naming;
mod scratch;
mod space;
mod sparse;
