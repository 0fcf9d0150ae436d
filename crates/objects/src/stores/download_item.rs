//! Object that is downloaded, and the parts that all downloads of a copy share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use crate::stores::bucket::attributes::Attributes;
use crate::stores::bucket::store::Bucket;
use crate::stores::job::Job;
use crate::stores::landing::Landing;
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
    /// True if the server sends no ranges.
    pub(crate) is_stream: bool,
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
    pub(crate) files: Sender<Complete>,
}
