//! Selection of files by rules in the syntax of rsync; the first rule that matches decides.
//!
//! - [`pattern`]: one pattern; [`rules`]: rules in order
//! - [`files_from`]: list of paths in place of a walk

pub mod files_from;
pub mod pattern;
pub mod rules;

pub use files_from::{FilesFrom, Separator, failure_record};
pub use pattern::Pattern;
pub use rules::{Decision, FilterOption, Rule, Rules};
