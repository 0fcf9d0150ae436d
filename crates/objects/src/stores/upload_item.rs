//! File that is uploaded.

use std::path::PathBuf;

use lighthaul_buckets::attributes::Stamp;
use lighthaul_buckets::store::Bucket;

use crate::stores::decision::Existing;

/// File to upload.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) bucket: Bucket,
    pub(crate) key: String,
    /// Path for messages.
    pub(crate) path: String,
    pub(crate) place: PathBuf,
    pub(crate) size: u64,
    pub(crate) time: Stamp,
    /// Object that has the key.
    pub(crate) there: Option<Existing>,
}
