//! Floor 6: copies of files, from the list of entries to the result of each.
//!
//! - [`send`], [`receive`]: the two roles

pub mod receive;
pub mod send;
