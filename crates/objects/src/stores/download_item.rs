//! Object that is downloaded, and the parts that all downloads of a copy share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use lighthaul_buckets::attributes::Attributes;
use lighthaul_buckets::store::Bucket;

use crate::stores::job::Job;
use crate::stores::landing::Landing;
use crate::stores::object_sources::StreamSize;
use crate::stores::publisher::Complete;

/// Object to download.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) bucket: Bucket,
    pub(crate) key: String,
    /// Attributes that a list or request has told.
    pub(crate) known: Attributes,
    /// True if `known` has all attributes.
    pub(crate) is_known: bool,
    /// Set if the file is read in one response.
    pub(crate) stream: Option<StreamSize>,
    /// Path below the target.
    pub(crate) path: PathBuf,
    /// The same for messages.
    pub(crate) name: String,
}

/// Parts of a download that its tasks share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) job: Arc<Job>,
    pub(crate) landing: Arc<Landing>,
    pub(crate) files: SyncSender<Complete>,
}
