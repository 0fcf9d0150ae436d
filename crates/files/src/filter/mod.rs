//! Which files of a tree are taken: rules as rsync writes them, matched in the order they were given.
//!
//! - [`pattern`]: one pattern against one path; [`rules`]: all of them, first match wins
//! - [`files_from`]: a list of paths instead of a walk

pub mod files_from;
pub mod pattern;
pub mod rules;

pub use files_from::{Ending, FilesFrom, failure_record};
pub use pattern::Pattern;
pub use rules::{Rule, Rules, Verdict, Written};
