//! Hashes of many files, computed in parallel.
//!
//! - [`crew`]: worker threads whose results come in order; [`take`]: hashes of one file

pub mod crew;
pub mod take;
