//! Hashes of many files, computed in parallel.
//!
//! - [`pool`]: worker threads whose results come in order; [`file_sums`]: hashes of one file
//! - [`mod@line`]: a line of a list of hashes; [`walk`]: the files of a directory

pub mod file_sums;
pub mod line;
pub mod pool;
pub mod walk;
