//! What somebody wants of a copy besides its places.
//!
//! - [`args`]: the options; [`rules`]: those that filter, whose order counts

pub(crate) mod args;
pub(crate) mod rules;

pub(crate) use args::Choice;
