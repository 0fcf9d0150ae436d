//! Scenarios: all data that `lighthaul` keeps on a disk.
//!
//! - [`all`]: scenarios by name; [`round`]: scenarios on each file system
//! - [`program`]: the `lighthaul` command
//! - [`versions`]: small files that are replaced atomically: keys, known hosts, lists, tokens
//! - [`tree`]: trees to copy, and their comparison; [`copies`]: copies, resumed copies, and
//!   deletions; [`moves`]: copies that remove their source
//! - [`books`]: reservations in the scheduler's database

pub mod all;
pub mod books;
pub mod copies;
pub mod moves;
pub mod program;
pub mod round;
pub mod tree;
pub mod versions;
