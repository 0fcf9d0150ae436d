//! Metadata of files: owner, mode, times, attributes and access control lists.
//!
//! - [`inode`]: an open file, directory or link, immune to renames
//! - [`extras`]: metadata as it crosses the wire; [`not_kept`]: metadata that a target cannot set

pub mod extras;
pub mod inode;
pub mod not_kept;

mod attributes;

pub use extras::{Extras, Keep, Time};
pub use inode::Inode;
pub use not_kept::{MetadataKind, NotKept, NotKeptReason};
