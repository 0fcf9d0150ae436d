//! The command as people use it: real processes, real files, real sockets.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test is a world of its own")]

mod bad_days;
mod booking;
mod choices;
mod circuits;
mod copies;
mod crashes;
mod credentials;
mod doctor;
mod early;
mod events;
mod families;
mod far;
mod files;
mod hashes;
mod holes;
mod inplace;
mod keys;
mod kinds;
mod metadata;
mod modes;
mod names;
mod options;
mod outages;
mod paths;
mod pipelining;
mod proof;
mod protocols;
mod resume;
mod roots;
mod running;
mod schema;
mod scratch;
mod settings;
mod ssh;
mod sshd;
mod stage;
mod strangers;
mod streams;
mod sums;
mod tapped;
mod targets;
mod third;
mod unit;
mod watching;
