//! What is cut: everything that `lighthaul` keeps on a disk.
//!
//! - [`all`]: every scenario by its name; [`round`]: each of them on each file system
//! - [`program`]: the command, started and waited for
//! - [`versions`]: small files that are replaced whole: keys, known hosts, lists, tokens
//! - [`tree`]: what is copied and how it is compared; [`copies`]: copies, resumed ones, and deletes
//! - [`books`]: reservations in the scheduler's database

pub mod all;
pub mod books;
pub mod copies;
pub mod program;
pub mod round;
pub mod tree;
pub mod versions;
