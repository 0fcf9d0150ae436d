//! `cargo xtask crash`: copies that are killed at a random moment and then done again, and disks whose power is cut.
//!
//! - [`args`]: what can be asked for; [`tree`]: what is copied
//! - [`drill`]: one trial after another; [`pair`]: the two sides of one
//! - [`compare`]: what is there, and what ought to be; [`tally`]: what came of the trials
//! - [`cuts`]: power cuts and failing disks

#![expect(
    clippy::disallowed_methods,
    reason = "it kills real processes at real moments"
)]

mod args;
mod compare;
mod cuts;
mod drill;
mod pair;
mod tally;
mod tree;

pub(crate) use drill::main;
