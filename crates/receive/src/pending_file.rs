//! File that is being received: its temporary file, and the ranges that are requested, compared or undecided.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lighthaul_copy::budget::Slot;
use lighthaul_copy::object_target::ObjectUpload;
use lighthaul_copy::span_set::SpanSet;
use lighthaul_files::delta::stretch::{Copied, gaps};
use lighthaul_files::digest::{self, Digest};
use lighthaul_files::manifest::Entry;
use lighthaul_files::object::{Piece, Span};
use lighthaul_files::stage_log::Staging;
use lighthaul_fs::disk::OutputFile;
use lighthaul_fs::version::Version;

use super::journal::{Journal, Record};

/// File that is being received.
#[derive(Debug)]
pub(crate) struct PendingFile {
    pub(crate) number: u64,
    pub(crate) entry: Entry,
    /// Temporary path of the file.
    pub(crate) temporary: PathBuf,
    /// Path of the journal, if the file has one.
    pub(crate) journal: PathBuf,
    /// True if a later run can resume the file.
    pub(crate) resumable: bool,
    /// Use of the temporary file by parts of a striped copy.
    pub(crate) staging: Staging,
    /// Upload of the file, in a copy into an object store.
    pub(crate) upload: Option<Box<dyn ObjectUpload>>,
    fill: Mutex<Fill>,
}

/// State of the content of a file.
#[derive(Debug, Default)]
// fields: all of it is under one lock
pub(crate) struct Fill {
    /// Ranges that were requested, and that no object contains yet.
    owed: SpanSet,
    /// Ranges for which the sender has not decided whether it sends them or the target copies them.
    undecided: SpanSet,
    /// Size of the basis, until its sums are requested.
    basis: Option<u64>,
    /// Length of the basis's blocks, once its sums are requested.
    block: Option<u64>,
    /// Records of the journal from an earlier run.
    pub(crate) held: Vec<Record>,
    /// Held ranges that were not compared with the source yet.
    uncompared: SpanSet,
    /// Kind of digest for the held ranges.
    held_digest: digest::DigestKind,
    /// Bytes that were not compared with the source in this run.
    pub(crate) uncompared_bytes: u64,
    /// Held ranges that can be compared. All other bytes are requested.
    pub(crate) compared: Vec<Span>,
    /// Version of the temporary file after this copy's last change.
    pub(crate) version: Option<Version>,
    /// Digests of the compared ranges, each of one or more.
    pub(crate) digests: Vec<(Vec<Span>, Digest)>,
    /// Lock on a file that is written under its final name.
    pub(crate) lock: Option<(File, Option<Slot>)>,
    /// True if the temporary file exists.
    pub(crate) created: bool,
    /// True if all metadata is set.
    pub(crate) finished: bool,
    pub(crate) journal: Option<Journal>,
    /// True if the file has failed and is no longer handled.
    pub(crate) failed: bool,
}

impl PendingFile {
    pub(crate) fn new(
        number: u64,
        entry: Entry,
        (temporary, journal): (PathBuf, PathBuf),
        resumable: bool,
    ) -> Self {
        Self {
            number,
            entry,
            temporary,
            journal,
            resumable,
            staging: Staging::default(),
            upload: None,
            fill: Mutex::default(),
        }
    }

    /// Returns the directory of the temporary file, if it differs from the final directory.
    pub(crate) fn apart(&self) -> Option<&Path> {
        let folder = self.temporary.parent();
        folder.filter(|_| folder != self.entry.path().parent())
    }

    /// Returns true if the file is written under its final name.
    pub(crate) fn is_in_place(&self) -> bool {
        self.temporary == self.entry.path()
    }

    pub(crate) fn fill(&self) -> MutexGuard<'_, Fill> {
        self.fill.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the requested ranges.
    pub(crate) fn expect(&self, owed: &[Span]) {
        let mut fill = self.fill();
        fill.owed = SpanSet::from(owed);
        fill.uncompared_bytes += fill.owed.bytes();
    }

    /// Sets the ranges that a basis of `len` bytes may have.
    pub(crate) fn expect_delta(&self, undecided: &[Span], len: u64) {
        let mut fill = self.fill();
        fill.basis = Some(len);
        fill.undecided = SpanSet::from(undecided);
        fill.uncompared_bytes += fill.undecided.bytes();
    }

    /// Takes the size of the basis, when the sums of its blocks of `block` bytes are requested.
    pub(crate) fn take_basis(&self, block: u64) -> Option<u64> {
        let mut fill = self.fill();
        fill.block.get_or_insert(block);
        fill.basis.take()
    }

    /// Records that the sender sends the stretch `span` except `copies`. Returns the bytes to send, if that is possible.
    pub(super) fn decide(&self, span: Span, copies: &[Copied]) -> Option<u64> {
        let mut fill = self.fill();
        // without sums, nothing can be copied
        let block = fill.block.unwrap_or(u64::MAX);
        let gaps = gaps(span, copies, block)?;
        if !fill.undecided.take(span) {
            return None;
        }
        for gap in &gaps {
            fill.owed.insert(*gap);
        }
        if fill.failed {
            // these were joined before, and may contain the gaps already
            fill.owed.join();
        }
        Some(gaps.iter().map(|(from, till)| till - from).sum())
    }

    /// Returns true if the sums of the basis were requested.
    pub(crate) fn has_delta(&self) -> bool {
        self.fill().block.is_some()
    }

    /// Returns true if no sums of the basis are needed.
    pub(crate) fn is_decided(&self) -> bool {
        let fill = self.fill();
        fill.failed || fill.undecided.is_empty()
    }

    /// Sets the ranges in `held`, which were written according to `records`, and whose digests are requested.
    pub(crate) fn expect_digests(
        &self,
        held: &[Span],
        digest: digest::DigestKind,
        records: Vec<Record>,
    ) {
        let mut fill = self.fill();
        fill.uncompared = SpanSet::from(held);
        fill.uncompared_bytes += fill.uncompared.bytes();
        fill.compared = held.to_vec();
        fill.held_digest = digest;
        fill.held = records;
    }

    /// Notes the version of the temporary file after a write.
    pub(crate) fn note_version(&self, output: &OutputFile) -> io::Result<()> {
        // a later note is of a later version
        let mut fill = self.fill();
        fill.version = Some(output.version()?);
        Ok(())
    }

    /// Returns the kind of digest for held ranges.
    pub(crate) fn held_digest(&self) -> digest::DigestKind {
        self.fill().held_digest
    }

    /// Returns the held range that has `span`.
    pub(crate) fn held_part(&self, span: Span) -> Option<Span> {
        let has = |(from, till): &&Span| *from <= span.0 && span.1 <= *till;
        self.fill().compared.iter().find(has).copied()
    }

    /// Returns the number of ranges that the sender must still send, digest or decide.
    pub(super) fn ranges(&self) -> usize {
        let fill = self.fill();
        fill.owed.len() + fill.uncompared.len() + fill.undecided.len()
    }

    /// Joins the ranges of a failed file that may still arrive, since their bytes are dropped.
    pub(super) fn join_ranges(&self) {
        let mut fill = self.fill();
        fill.owed.join();
        fill.uncompared.join();
        fill.undecided.join();
    }

    /// Returns true if the sender may still send bytes or digests of the file.
    pub(super) fn is_awaited(&self) -> bool {
        let fill = self.fill();
        let sets = [&fill.owed, &fill.uncompared, &fill.undecided];
        sets.iter().any(|set| !set.is_empty())
    }

    /// Returns the requested bytes that have not arrived.
    pub(super) fn owed(&self) -> u64 {
        self.fill().owed.bytes()
    }

    /// Marks a part of a held range as being compared. Returns false if its digest was not requested.
    pub(super) fn compare(&self, span: Span) -> bool {
        self.fill().uncompared.take(span)
    }

    /// Requests a range that differs from the source. Returns false for a failed file.
    pub(super) fn owe(&self, span: Span) -> bool {
        let mut fill = self.fill();
        if !fill.failed {
            fill.owed.insert(span);
        }
        !fill.failed
    }

    /// Marks `piece` as announced. Returns false if it was not requested.
    pub(super) fn announce(&self, piece: &Piece) -> bool {
        self.fill().owed.take((piece.offset, piece.end()))
    }
}
