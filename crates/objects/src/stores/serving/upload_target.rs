//! Object that a client writes: its key, and the condition under which it gets its name.

use std::path::PathBuf;

use lighthaul_buckets::attributes::{Condition, Stamp};

/// Object that is uploaded.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) key: String,
    /// Path that clients see.
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    pub(crate) stamp: Stamp,
    pub(crate) condition: Condition,
    /// The store checks the condition itself, as part of the request.
    pub(crate) is_strict: bool,
}
