//! Requirements of tests on the host: root, namespaces, commands, servers.
//!
//! A test with an unmet requirement calls a function of this crate and returns. The call writes the
//! test's name and the reason to standard error and to the file `LIGHTHAUL_TEST_SKIPPED`, which
//! `make test` prints at the end. With `LIGHTHAUL_TEST_REQUIRE=all`, the call panics instead.
//!
//! [`Holder`] runs a process that a test kills. [`names()`] lists a directory.
//!
//! [`drawing()`] shows how much of a picture is drawn on.
//!
//! [`schema`] checks JSON against a schema.
//!
//! [`PostgresServer`] is a real server for tests of stores.
//!
//! [`report()`] prints what a test measured, also if the test passes.
//!
//! [`logged()`] returns what a test logs.
//!
//! [`Ordinary`] drops root's privileges in a test that needs file modes to apply.
//!
//! [`allowance()`] is a time limit that a loaded host stretches.
//!
//! Tests that use the network in real time take a [`Turn`]. Those that measure it run alone, all
//! others side by side.

mod allowance;
mod drawing;
mod holder;
mod log;
mod names;
mod need;
pub mod postgres_server;
mod report;
pub mod schema;
mod skip;
mod turn;
mod user;

pub use allowance::allowance;
pub use drawing::{Drawing, assert_drawn, drawing, picture_fault};
pub use holder::Holder;
pub use log::logged;
pub use names::names;
pub use need::{lacks, lacks_root, lacks_tool, libfaketime};
pub use postgres_server::PostgresServer;
pub use report::report;
pub use skip::{REQUIRE, SKIPPED, skip};
pub use turn::Turn;
pub use user::Ordinary;
