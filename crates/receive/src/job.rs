//! Jobs for the thread that publishes files.

use std::sync::Arc;

use lighthaul_copy::report::Report;
use lighthaul_copy::watch::CurrentFile;
use lighthaul_files::digest::Digest;
use lighthaul_files::object::{Layout, Span};
use lighthaul_session::error::Error;
use lighthaul_session::protocol::Protocol;

use super::entry_table::PendingFile;

/// Number that the numbers of objects of the sender's lanes do not reach.
pub(crate) const OBJECTS_MAX: u64 = 1 << 63;

/// Job of the publisher.
#[derive(Debug)]
pub(crate) enum Job {
    /// An object has arrived.
    Arrived(Arrived),
    /// The sender has reported on the next pieces of an object.
    Reports(u64, Vec<Report>),
    /// A range from an earlier run equals the source.
    Kept(Arc<PendingFile>, Span, Digest),
    /// Ranges that were copied from the basis and equal the source, with the digest of all their bytes.
    Copied(Arc<PendingFile>, Vec<Span>, Digest),
    /// Ranges that other parts of a striped copy have written and compared, each with its digest.
    Staged(Arc<PendingFile>, Vec<(Span, Digest)>),
    /// A file cannot be written.
    Failed(u64, Error),
}

/// Object that is being received.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) number: u64,
    /// Protocol that moves the object.
    pub(crate) protocol: Protocol,
    pub(crate) layout: Layout,
    /// Files of the pieces.
    pub(crate) files: Vec<Arc<PendingFile>>,
}

impl Incoming {
    /// Returns the file at `position` in the object, for the observer.
    pub(crate) fn file_at(&self, position: u64) -> Option<CurrentFile> {
        let (index, at) = self.layout.piece_at(position)?;
        let (piece, file) = (self.layout.pieces().get(index)?, self.files.get(index)?);
        let entry = &file.entry;
        Some(CurrentFile::new(
            entry.path(),
            piece.offset.saturating_add(at),
            entry.size(),
        ))
    }
}

/// Object that has arrived, with the digest of each piece, or none for a piece of a failed file.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) object: Arc<Incoming>,
    pub(crate) digests: Vec<Option<Digest>>,
}
