//! The command as users run it: real processes, real files, real sockets.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

/// Tests that measure, each alone on the host. `make test` runs them after all others.
mod alone {
    pub(crate) mod attacks;
    mod auto;
    mod pipelining;
}
/// Tests that measure and mostly wait, few at a time. `make test` runs them after busy tests.
mod quiet {
    mod circuits;
    mod protocol_switch;
    mod round_trips;
}
mod backups;
mod booking;
mod booking_changes;
mod booking_options;
mod choices;
mod copies;
mod crashes;
mod credentials;
mod delta;
mod doctor;
mod early;
mod endless;
mod events;
mod families;
mod far;
mod files;
mod followed;
mod hashes;
mod help_claims;
mod holes;
mod inplace;
mod install;
mod jobs;
mod keys;
mod kinds;
mod metadata;
mod modes;
mod monitor;
mod mounts;
mod mounts_empty;
mod names;
mod options;
mod outages;
mod paths;
mod permits;
mod policies;
#[expect(dead_code, reason = "the scheduler has tests of its own")]
#[path = "../../../scheduler/tests/postgres/server.rs"]
mod postgres_server;
mod progress;
mod proof;
mod protocols;
mod relays;
mod remote_files;
mod remote_names;
mod remote_writes;
mod resource_limits;
mod resume;
mod roots;
mod rsync;
mod running;
mod schema;
mod scratch;
mod settings;
mod slow_disk;
mod source_and_clock_faults;
mod ssh;
mod ssh_only;
mod sshd;
mod stage;
mod stopping;
mod strangers;
mod streams;
mod striped;
mod sums;
mod switches;
mod tapped;
mod target_paths;
mod targets;
mod third;
mod unit;
mod unread;
mod watching;
mod writers;
