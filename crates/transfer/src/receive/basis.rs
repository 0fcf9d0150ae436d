//! Basis of a delta: the old version of a file at its final name, while the new one is received.
//!
//! The threads of a delta share it: one computes sums of its blocks (`basis_sums`), another copies
//! parts of it (`seeding`). While the first reads the basis, it also writes blocks to the temporary
//! file at their own offsets, since most of a changed file stays where it is. A part counts only if
//! the digest of what was written equals that of the sender.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use lighthaul_files::delta::summer::is_block_len;
use lighthaul_files::digest::{Digest, DigestKind, RunningDigest};
use lighthaul_files::manifest::{Entry, EntryKind};
use lighthaul_files::object::Span;
use lighthaul_files::options::DeltaMode;
use lighthaul_fs::disk::InputFile;
use lighthaul_fs::meta::Meta;
use lighthaul_session::error::Error;
use lighthaul_session::fault::PeerFault;
use rustix::fs::FileType;

use super::entry_checker::{EntryChecker, Place};
use super::entry_table::PendingFile;

/// Bytes of the smallest file that has a delta.
const SIZE_MIN: u64 = 256 << 10;
/// Bytes that are written before the sender confirms that blocks are where they were.
const UNCONFIRMED_MAX: u64 = 64 << 20;

/// Basis of one file, with what was found out about it.
#[derive(Debug)]
pub(super) struct Basis {
    pub(super) file: Arc<PendingFile>,
    /// Size of the basis, and length of its blocks.
    pub(super) len: u64,
    pub(super) block: u32,
    pub(super) key: [u8; 32],
    /// Ranges of the new file that may be in it.
    pub(super) spans: Vec<Span>,
    /// The open basis, if it is still the file that was seen.
    pub(super) input: OnceLock<InputFile>,
    /// Digests of the blocks that were written at their own offsets.
    seeds: Mutex<Seeds>,
    /// Bytes of the basis whose sums were sent.
    told: AtomicU64,
    /// Bytes that the sender has found at their own offsets.
    pub(super) confirmed: AtomicU64,
    /// True if the delta is over, so that no more sums are needed.
    pub(super) over: AtomicBool,
}

/// Blocks that were written at their own offsets.
#[derive(Debug)]
struct Seeds {
    /// Digests of blocks, from the first on; none for blocks that were not written.
    blocks: Vec<Option<(u64, u64)>>,
    /// Bytes that were written.
    bytes: u64,
    /// Offset from which on nothing may be written.
    till: u64,
}

impl EntryChecker<'_> {
    /// Returns the length of the file that is at the target now, if it may be the basis of a delta.
    pub(super) fn basis_len(&self, place: &mut Place, pending: &PendingFile) -> Option<u64> {
        if self.transfer.options().dry_run.is_some() || pending.is_in_place() {
            return None;
        }
        let there = place.root.look(pending.entry.path()).ok().flatten()?;
        self.may_be_basis(&pending.entry, &there)
            .then_some(there.size)
    }

    /// Returns true if `there` may be the basis of a delta of `entry`.
    pub(super) fn may_be_basis(&self, entry: &Entry, there: &Meta) -> bool {
        let options = self.transfer.options();
        let size = entry.size();
        let is_wanted = options.delta != DeltaMode::Never && !options.inplace && size >= SIZE_MIN;
        let is_alike = options.delta == DeltaMode::Always || there.size >= size / 10;
        let is_file = there.kind == FileType::RegularFile && there.size > 0;
        is_wanted && is_alike && is_file && matches!(entry.kind, EntryKind::File(_))
    }
}

impl Basis {
    /// Begins the delta of `file`. Fails if it was not requested, or has begun before.
    pub(super) fn begin(file: Arc<PendingFile>, block: u32, key: [u8; 32]) -> Result<Self, Error> {
        let (len, spans) = file
            .begin_delta()
            .ok_or(PeerFault::Invalid("a delta that was not requested"))?;
        if !is_block_len(block) {
            return Err(PeerFault::Invalid("a block length that is not possible").into());
        }
        let till = file.entry.size();
        Ok(Self {
            file,
            len,
            block,
            key,
            spans,
            input: OnceLock::new(),
            seeds: Mutex::new(Seeds {
                blocks: Vec::new(),
                bytes: 0,
                till,
            }),
            told: AtomicU64::new(0),
            confirmed: AtomicU64::new(0),
            over: AtomicBool::new(false),
        })
    }

    fn seeds(&self) -> MutexGuard<'_, Seeds> {
        self.seeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the block-aligned range `span` to the temporary file with `write`, which returns the
    /// digests of its blocks. Does nothing if the sender has said what is there, or has not
    /// confirmed enough blocks, or the file has more than `blocks_max` blocks.
    pub(super) fn seed(
        &self,
        span: Span,
        blocks_max: usize,
        write: impl FnOnce() -> std::io::Result<Vec<(u64, u64)>>,
    ) -> bool {
        let mut seeds = self.seeds();
        let most = 2 * self.confirmed.load(Relaxed) + UNCONFIRMED_MAX;
        let is_known = (span.1 / u64::from(self.block)) as usize <= blocks_max;
        if !is_known || span.1 > seeds.till || seeds.bytes + (span.1 - span.0) > most {
            return false;
        }
        let Ok(digests) = write() else {
            // the part is copied later, which reports the error
            seeds.till = 0;
            return false;
        };
        seeds.bytes += span.1 - span.0;
        let first = (span.0 / u64::from(self.block)) as usize;
        seeds.blocks.resize(first, None);
        seeds.blocks.extend(digests.into_iter().map(Some));
        true
    }

    /// Records that the sums of the first `bytes` bytes were sent.
    pub(super) fn tell(&self, bytes: u64) {
        self.told.store(bytes, Relaxed);
    }

    /// Prevents that `span` is written from now on, since the sender has said what is there.
    pub(super) fn decide(&self, span: Span) {
        // blocks whose sums were sent are written already
        if span.1 > self.told.load(Relaxed) {
            let mut seeds = self.seeds();
            seeds.till = seeds.till.min(span.0);
        }
    }

    /// Returns the digest of `span` if it was written at its own offset.
    pub(super) fn seeded(&self, span: Span) -> Option<Digest> {
        let block = u64::from(self.block);
        let is_whole = span.0.is_multiple_of(block) && span.1.is_multiple_of(block);
        let seeds = self.seeds();
        let range = (span.0 / block) as usize..(span.1 / block) as usize;
        let digests = seeds.blocks.get(range).filter(|_| is_whole)?;
        let mut digest = RunningDigest::new(DigestKind::Crc128);
        for (nvme, xz) in digests.iter().copied().map(Option::unwrap_or_default) {
            digest.append_digest(Digest::Crc128(nvme, xz), block);
        }
        digests.iter().all(Option::is_some).then(|| digest.finish())
    }
}
