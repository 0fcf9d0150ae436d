//! The hashes of many files, several at a time.
//!
//! - [`crew`]: workers whose results come in order; [`take`]: what one file comes to

pub mod crew;
pub mod take;
