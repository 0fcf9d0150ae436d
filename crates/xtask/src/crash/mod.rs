//! `cargo xtask crash`: copies that are killed at a moment of chance and then done again.
//!
//! - [`args`]: what can be asked for; [`tree`]: what is copied
//! - [`drill`]: one trial after another; [`pair`]: the two sides of one
//! - [`tally`]: what came of them

#![expect(
    clippy::disallowed_methods,
    reason = "it kills real processes at real moments"
)]

mod args;
mod drill;
mod pair;
mod tally;
mod tree;

pub(crate) use drill::main;
