//! The hashes of many files, several at a time.
//!
//! - [`crew`]: workers whose results come in order; [`take`]: what one file comes to
//! - [`mod@line`]: a line of a list of hashes; [`walk`]: the files of a folder

pub mod crew;
pub mod line;
pub mod take;
pub mod walk;
