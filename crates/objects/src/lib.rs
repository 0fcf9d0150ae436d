//! Floor 9: object stores as places of copies: S3, Google Cloud Storage, Azure Blob Storage, and files of web servers.
//!
//! - [`mod@copy`], [`object_copy`]: a copy with an object store; [`files`]: lists, attributes and removals
//! - [`serving`]: buckets that a daemon serves as directories; [`spool_space`]: their space on disk
//! - [`fault`]: faults of these copies
//! - `stores`: copies with the clients of stores, with the feature of this name

pub mod copy;
pub mod fault;
pub mod files;
pub mod object_copy;
pub mod serving;
pub mod spool_space;

#[cfg(feature = "stores")]
mod stores;
