//! What tests need of the machine that runs them: root, namespaces, tools, servers.
//!
//! A test that lacks one calls a function of this crate and returns. The call writes the name of the test and the
//! reason to standard error and to the file that `LIGHTHAUL_TEST_SKIPPED` names; `make test` prints that file last.
//! Where `LIGHTHAUL_TEST_REQUIRE` is `all`, the call panics instead, and the test fails.
//!
//! [`Ordinary`] takes root's rights from a test that needs modes to forbid something.
//!
//! Tests that use the network in real time take a [`Turn`]: those that measure it alone, all others side by side.

mod need;
mod skip;
mod turn;
mod user;

pub use need::{lacks, lacks_root, lacks_tool};
pub use skip::{REQUIRE, SKIPPED, skip};
pub use turn::Turn;
pub use user::Ordinary;
