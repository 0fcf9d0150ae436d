//! Floor 4: trees of files. What is in them, which of it is taken, and what its bytes come to.
//!
//! - [`walk`]: from paths to entries; [`listed`]: from a list to entries; [`inspect`]: what only some entries have
//! - [`filter`]: which files of a tree are taken; [`list`]: paths to look for; [`options`]: how trees are copied
//! - [`manifest`]: the list of entries; [`object`]: how parts of files lie in one row; [`hard_links`]: which are the same file
//! - [`names`]: which names a target does not take; [`temp_names`]: names of files that are not complete
//! - [`digest`]: the proof that two sides agree; [`hash`]: what others want to know, and [`sums`]: of many files at a time
//! - [`verb`]: what can be asked about files where they are; [`work`]: doing it; [`far`]: for a peer
//! - [`special`]: devices and their like; [`notes`]: what is told once

pub mod digest;
pub mod far;
pub mod filter;
pub mod hard_links;
pub mod hash;
pub mod inspect;
pub mod list;
pub mod listed;
pub mod manifest;
pub mod names;
pub mod notes;
pub mod object;
pub mod options;
pub mod special;
pub mod sums;
pub mod temp_names;
pub mod verb;
pub mod walk;
pub mod work;
