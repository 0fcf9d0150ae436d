//! Floor 3: files and their file systems.
//!
//! - [`file_access`]: part of the file system that a user may access; [`disk`]: files beneath a root, [`device`]: read
//!   from their device
//! - [`folder`]: operations on open directories; [`meta`]: attributes of an entry; [`version`]: versions of a file
//! - [`metadata`]: owners, times, extended attributes; [`sparse`]: holes; [`name_rules`], [`reserved_names`]: names; [`packed_names`]: many names in little memory; [`space`]: free space
//! - [`disk_rate`]: rates of a disk; [`watched_file`]: files that people edit
//! - `beneath`: opening within a directory; `hard_link`, `remove`, `remove_source`: changes beneath a root; `mounts`:
//!   file systems of a tree; `proc_path`: paths of open files

pub mod device;
pub mod disk;
pub mod disk_rate;
pub mod file_access;
pub mod folder;
pub mod meta;
pub mod metadata;
pub mod name_rules;
pub mod packed_names;
pub mod reserved_names;
pub mod space;
pub mod sparse;
pub mod version;
pub mod watched_file;

mod beneath;
mod hard_link;
mod mounts;
mod proc_path;
mod remove;
mod remove_source;
