//! What a file has besides name and bytes: owner, mode, times, attributes and access lists.
//!
//! - [`inode`]: the file, folder or link itself, whatever its name is made to mean meanwhile
//! - [`extras`]: what it has, as it crosses the wire; [`not_kept`]: what a target could not take over

pub mod extras;
pub mod inode;
pub mod not_kept;

mod attributes;

pub use extras::{Extras, Keep, Time};
pub use inode::Inode;
pub use not_kept::{NotKept, Part, Reason};
