//! `lighthaul manifest` and `lighthaul verify`: the hashes of a folder's files, as lists and compared.
//!
//! - [`args`]: their grammar; [`make`], [`check`]: writing a list, comparing with one
//! - [`mod@line`]: a line of a list; [`walk`]: the files of a folder; [`show`]: progress and what is wrong

pub(crate) mod args;
pub(crate) mod check;
pub(crate) mod make;

pub(crate) mod line;
mod show;
mod walk;
