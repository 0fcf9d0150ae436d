//! The TL1 driver against an emulated switch of each vendor, over a real TCP connection.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

mod changes;
mod conformance;
mod emulator;
mod faults;
mod random;
mod replies;
mod settings;
mod testbed;
