//! Tests of file operations on real file systems.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "tests use the real system")]

mod hard_link;
mod locking;
mod metadata;
mod naming;
mod scratch;
mod space;
mod sparse;
