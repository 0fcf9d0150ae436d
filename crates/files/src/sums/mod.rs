//! Hashes of many files, computed in parallel.
//!
//! - [`pool`]: worker threads whose results come in order; [`file_sums`]: hashes of one file

pub mod file_sums;
pub mod pool;
