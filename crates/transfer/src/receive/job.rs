//! What lanes and the sender say of objects and files, on its way to the thread that publishes.

use std::sync::Arc;

use lighthaul_files::digest::Digest;
use lighthaul_files::object::{Layout, Span};
use lighthaul_session::error::Error;

use super::ledger::Pending;
use crate::message::Report;

/// What a publisher hears.
#[derive(Debug)]
pub(crate) enum Job {
    /// An object has come.
    Arrived(Arrived),
    /// The sender has spoken about the next pieces of an object.
    Reports(u64, Vec<Report>),
    /// A range that an earlier run left is what the sender has.
    Kept(Arc<Pending>, Span, Digest),
    /// A file cannot be written.
    Failed(u64, Error),
}

/// An object that is coming.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) number: u64,
    pub(crate) layout: Layout,
    /// The file of each piece.
    pub(crate) files: Vec<Arc<Pending>>,
}

/// An object that has come, and the digest of each piece; nothing for one whose file has failed.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) object: Arc<Incoming>,
    pub(crate) digests: Vec<Option<Digest>>,
}
