//! Object that is copied to another store.

use lighthaul_buckets::attributes::Attributes;
use lighthaul_buckets::store::Bucket;

use crate::stores::decision::Existing;
use crate::stores::object_sources::StreamSize;

/// Object to copy.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) from: Bucket,
    pub(crate) key: String,
    pub(crate) known: Attributes,
    pub(crate) is_known: bool,
    /// Set if the object is read in one response.
    pub(crate) stream: Option<StreamSize>,
    pub(crate) to: Bucket,
    pub(crate) target: String,
    /// Path for messages.
    pub(crate) name: String,
    pub(crate) there: Option<Existing>,
}
