//! Basis of a delta: the old version of a file, which keeps its name while the new version is received.
//!
//! One thread sends the sums of its blocks. Later, `held` copies parts of it.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use lighthaul_copy::delta_message::{Sums, SumsRequest};
use lighthaul_copy::message::Listing;
use lighthaul_files::delta::summer::{BLOCK_MAX, Summer, is_block_len};
use lighthaul_files::manifest::{Entry, EntryKind};
use lighthaul_files::options::DeltaMode;
use lighthaul_fs::disk::Root;
use lighthaul_fs::meta::Meta;
use lighthaul_session::error::Error;
use lighthaul_session::fault::PeerFault;
use rustix::fs::FileType;

use super::entry_checker::{EntryChecker, Place};
use super::entry_table::PendingFile;
use super::transfer::Transfer;

/// Bytes of the smallest file that has a delta.
const SIZE_MIN: u64 = 256 << 10;
/// Maximum ratio of the size of a file to the size of its basis.
const GROWTH_MAX: u64 = 10;
/// Bytes that are read at a time: whole blocks.
const READ: usize = BLOCK_MAX as usize;
/// Number of octets of sums that are sent together.
const OCTETS: usize = 32 << 10;
/// Longest wait of fewer octets.
const FLUSH: Duration = Duration::from_millis(20);

/// Request for the sums of a basis.
#[derive(Debug)]
pub(super) struct Basis {
    file: Arc<PendingFile>,
    len: u64,
    request: SumsRequest,
}

impl Basis {
    /// Returns a request about `file`. Fails if it has no basis, or was requested before.
    pub(super) fn new(file: Arc<PendingFile>, request: SumsRequest) -> Result<Self, Error> {
        if !is_block_len(request.block) {
            return Err(PeerFault::Invalid("a block length that is not possible").into());
        }
        let len = file.take_basis(request.block.into());
        let len = len.ok_or(PeerFault::Invalid("a delta that was not requested"))?;
        Ok(Self { file, len, request })
    }
}

impl EntryChecker<'_> {
    /// Returns the size of the file at the target, if that file may be the basis of `pending`.
    pub(super) fn basis_len(&self, place: &mut Place, pending: &PendingFile) -> Option<u64> {
        if self.transfer.options().dry_run.is_some() {
            return None;
        }
        let there = place.root.look(pending.entry.path()).ok().flatten()?;
        self.may_be_basis(&pending.entry, &there)
            .then_some(there.size)
    }

    /// Returns true if `there` may be the basis of `entry`.
    pub(super) fn may_be_basis(&self, entry: &Entry, there: &Meta) -> bool {
        let options = self.transfer.options();
        let size = entry.size();
        // a file that is written under its final name replaces its own basis
        let is_wanted = options.delta != DeltaMode::Never && !options.inplace && size >= SIZE_MIN;
        let is_alike = options.delta == DeltaMode::Always || there.size >= size / GROWTH_MAX;
        let is_file = there.kind == FileType::RegularFile && there.size > 0;
        is_wanted && is_alike && is_file && matches!(entry.kind, EntryKind::File(_))
    }
}

/// Thread that sends the sums of bases.
pub(super) struct BasisReader<'a> {
    pub(super) transfer: &'a Transfer<'a>,
    pub(super) root: Root,
}

impl BasisReader<'_> {
    /// Sends the sums of each basis until the queue ends.
    pub(crate) fn run(&mut self, todo: &Receiver<Basis>) -> Result<(), Error> {
        let mut buffer = vec![0; READ];
        for basis in todo {
            self.send_sums(&basis, &mut buffer)?;
        }
        Ok(())
    }

    /// Sends the sums of a basis, as long as they are needed and the basis can be read.
    fn send_sums(&mut self, basis: &Basis, buffer: &mut [u8]) -> Result<(), Error> {
        let clock = self.transfer.session.clock;
        let summer = Summer::new(basis.request.key, basis.request.block);
        let input = self.root.read(basis.file.entry.path()).ok();
        let mut octets = Vec::new();
        let (mut at, mut sent_at) = (0, clock.now());
        while at < basis.len && !basis.file.is_decided() {
            self.transfer.threads.check()?;
            let step = self.transfer.threads.work.begin();
            let part = &mut buffer[..(basis.len - at).min(READ as u64) as usize];
            let read = input
                .as_ref()
                .and_then(|input| input.read_at(part, at).ok());
            if read != Some(part.len()) {
                break;
            }
            for block in part.chunks_exact(summer.block()) {
                octets.extend(summer.sum(block).encode());
            }
            drop(step);
            at += part.len() as u64;
            let now = clock.now();
            if octets.len() >= OCTETS || now.since(sent_at) >= FLUSH {
                self.tell(basis, std::mem::take(&mut octets), false)?;
                sent_at = now;
            }
        }
        self.tell(basis, octets, true)
    }

    fn tell(&self, basis: &Basis, octets: Vec<u8>, last: bool) -> Result<(), Error> {
        let entry = basis.request.entry;
        let sums = Listing::Sums(Sums {
            entry,
            octets,
            last,
        });
        let threads = &self.transfer.threads;
        threads.send(&self.transfer.stream, sums.encode())
    }
}
