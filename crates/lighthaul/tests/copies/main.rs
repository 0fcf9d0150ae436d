//! Copies, streams and reservations by the library, with daemons and schedulers on loopback.
#![expect(clippy::unwrap_used, reason = "a test")]

mod books;
mod cancelled;
mod ends;
mod faults;
mod files;
mod host;
mod names;
mod progress;
mod reservations;
mod streams;
