//! `cargo xtask crash`: copies that are killed at a random moment and repeated, and power cuts of
//! disks.
//!
//! - [`args`]: command line; [`tree`]: tree to copy
//! - [`drill`]: trials with kills; [`pair`]: both sides of a copy; [`compare`]: check of the
//!   target; [`tally`]: results
//! - [`cuts`]: power cuts and failing disks

#![expect(clippy::disallowed_methods, reason = "the tests kill real processes")]

mod args;
mod compare;
mod cuts;
mod drill;
mod pair;
mod tally;
mod tree;

pub(crate) use drill::main;
