//! Thread that computes the sums of a basis for the sender, and writes its blocks to the temporary
//! file at their own offsets.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_files::delta::summer::{BLOCK_MAX, Summer};
use lighthaul_files::digest::{Digest, DigestKind, RunningDigest};
use lighthaul_files::object::Span;
use lighthaul_fs::disk::OutputFile;
use lighthaul_io::store::block::Block;
use lighthaul_session::error::Error;

use super::basis::Basis;
use super::job::Job;
use super::temp_files::{Share, TempFiles};
use super::transfer::Transfer;
use crate::delta_message::Sums;
use crate::message::Listing;

/// Bytes that are read at a time: whole blocks.
const READ: usize = BLOCK_MAX as usize;
/// Octets of sums after which they are sent, and the longest wait of fewer.
const OCTETS: usize = 32 << 10;
const FLUSH: Duration = Duration::from_millis(20);

/// Reader of bases.
pub(super) struct BasisReader<'a> {
    pub(super) transfer: &'a Transfer<'a>,
    pub(super) files: TempFiles,
    /// Queue for failed files.
    pub(super) jobs: Sender<Job>,
}

/// Sums that were not sent yet.
struct Pending {
    octets: Vec<u8>,
    since: Instant,
}

impl BasisReader<'_> {
    /// Sends the sums of each basis until the queue ends.
    pub(crate) fn run(&mut self, todo: &Receiver<Arc<Basis>>) -> Result<(), Error> {
        let mut buffer = Block::new(READ);
        for basis in todo {
            self.sums(&basis, &mut buffer)?;
        }
        Ok(())
    }

    fn sums(&mut self, basis: &Basis, buffer: &mut [u8]) -> Result<(), Error> {
        let clock = self.transfer.session.clock;
        let summer = Summer::new(basis.key, basis.block);
        let blocks_max = self.transfer.settings.budget.delta_blocks();
        let end = basis.len;
        let mut output = self.open(basis);
        let mut pending = Pending {
            octets: Vec::new(),
            since: clock.now(),
        };
        let mut at = 0;
        while at < end && !basis.over.load(Relaxed) {
            self.transfer.threads.check()?;
            let step = self.transfer.threads.work.begin();
            let len = (end - at).min(READ as u64) as usize;
            let Some(bytes) = read(basis, at, &mut buffer[..len]) else {
                break;
            };
            for block in bytes.chunks(basis.block as usize) {
                pending.octets.extend(summer.sum(block).encode());
            }
            if let Some(output) = &mut output {
                seed(basis, (at, bytes), blocks_max, output);
            }
            drop(step);
            at += len as u64;
            let now = clock.now();
            if pending.octets.len() >= OCTETS || now.since(pending.since) >= FLUSH {
                // before the sender knows the sums, and says what is there
                basis.tell(at);
                self.tell(basis, &mut pending, false)?;
                pending.since = now;
            }
        }
        basis.tell(u64::MAX);
        self.tell(basis, &mut pending, true)
    }

    /// Opens the basis, and the temporary file if blocks are written there at once.
    fn open(&mut self, basis: &Basis) -> Option<OutputFile> {
        let input = self.files.root.read(basis.file.entry.path()).ok()?;
        let version = input.version().ok()?;
        if version.look.size != basis.len {
            return None;
        }
        basis.input.set(input).ok()?;
        // in a file with holes, zeros are not written over what is there
        if self.files.sparse || basis.file.held_digest() != DigestKind::Crc128 {
            return None;
        }
        self.files
            .open(&basis.file, Share::Part)
            .unwrap_or_else(|error| {
                // a later opening of the file would not report the error
                let job = Job::Failed(basis.file.number, error);
                self.jobs.send(job).ok();
                None
            })
    }

    fn tell(&self, basis: &Basis, pending: &mut Pending, last: bool) -> Result<(), Error> {
        let sums = Sums {
            entry: basis.file.number,
            octets: std::mem::take(&mut pending.octets),
            last,
        };
        let listing = Listing::Sums(sums);
        let threads = &self.transfer.threads;
        threads.send(&self.transfer.stream, listing.encode())
    }
}

/// Reads from the basis. Returns none if it has changed so that it is shorter, or cannot be read.
fn read<'b>(basis: &Basis, at: u64, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    let count = basis.input.get()?.read_at(buffer, at).ok()?;
    (count == buffer.len()).then_some(buffer)
}

/// Writes the whole blocks in `bytes`, which are at `at` of the basis, to the same place of the
/// temporary file, where the new file may have them.
fn seed(basis: &Basis, (at, bytes): (u64, &[u8]), blocks_max: usize, output: &mut OutputFile) {
    let (block, end) = (u64::from(basis.block), at + bytes.len() as u64);
    let first = basis.spans.partition_point(|span| span.1 <= at);
    let spans = basis.spans[first..].iter().take_while(|span| span.0 < end);
    for (from, till) in spans {
        let span: Span = (
            (*from).max(at).next_multiple_of(block),
            (*till).min(end) / block * block,
        );
        if span.0 >= span.1 {
            continue;
        }
        let part = &bytes[(span.0 - at) as usize..(span.1 - at) as usize];
        basis.seed(span, blocks_max, || {
            output.write_at(part, span.0)?;
            basis.file.note_version(output)?;
            Ok(part.chunks(block as usize).map(crc).collect())
        });
    }
}

fn crc(bytes: &[u8]) -> (u64, u64) {
    let mut digest = RunningDigest::new(DigestKind::Crc128);
    digest.append(bytes);
    match digest.finish() {
        Digest::Crc128(nvme, xz) => (nvme, xz),
        Digest::Blake3(_) | Digest::None => (0, 0),
    }
}
