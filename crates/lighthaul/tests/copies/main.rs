//! Copies by the library, between this process and daemons on loopback.
#![expect(clippy::unwrap_used, reason = "a test")]

mod cancelled;
mod ends;
mod faults;
mod files;
mod host;
mod names;
mod progress;
