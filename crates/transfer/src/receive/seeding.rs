//! Parts of a delta: those that the basis has are copied and compared, the others are requested.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError};

use lighthaul_files::delta::parts::{PARTS_MAX, Part, RUN_MAX};
use lighthaul_files::digest::{Digest, RunningDigest};
use lighthaul_files::object::Span;
use lighthaul_fs::disk::OutputFile;
use lighthaul_fs::sparse::{self, FormerContent};
use lighthaul_session::error::{Code, Error};
use lighthaul_session::fault::PeerFault;

use super::basis::Basis;
use super::entry_table::PendingFile;
use super::job::Job;
use super::temp_files::{Attempt, Share, TempFiles};
use super::transfer::Transfer;
use crate::delta_message::{Delta, DeltaStep, PARTS_A_MESSAGE, Seeded};
use crate::message::Listing;

/// Bytes that are copied at a time.
const COPIED: usize = 1 << 20;

/// Deltas that have begun and not ended, as the thread for messages knows them.
pub(super) struct Deltas {
    open: BTreeMap<u64, OpenDelta>,
    /// Queue of bases whose sums are wanted.
    pub(super) bases: SyncSender<Arc<Basis>>,
    /// Queue of parts.
    pub(super) steps: Sender<SeedStep>,
}

struct OpenDelta {
    basis: Arc<Basis>,
    /// Parts that the sender has named.
    parts: usize,
}

/// Work of the thread that copies parts.
#[derive(Debug)]
pub(super) enum SeedStep {
    /// Copies a part of the basis.
    Copy(Arc<Basis>, Span, u64, Digest),
    /// Reports that all parts of a file were copied.
    End(u64),
}

impl Deltas {
    pub(super) const fn new(bases: SyncSender<Arc<Basis>>, steps: Sender<SeedStep>) -> Self {
        Self {
            open: BTreeMap::new(),
            bases,
            steps,
        }
    }

    /// Returns true if the sender has ended all deltas that it has begun.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Handles a message of the sender.
    pub(super) fn take(
        &mut self,
        transfer: &Transfer<'_>,
        jobs: &Sender<Job>,
        Delta { entry, step }: Delta,
    ) -> Result<(), Error> {
        let not_begun = || PeerFault::Invalid("a part of a delta that has not begun");
        let delta = self.open.get_mut(&entry);
        match step {
            DeltaStep::Begin { block, key } => {
                let file = transfer.table.delta(entry)?;
                let basis = Arc::new(Basis::begin(file, block, key)?);
                if self.bases.try_send(Arc::clone(&basis)).is_err() {
                    transfer.threads.check()?;
                    return Err(PeerFault::Invalid("more deltas than the limit").into());
                }
                transfer.monitor.delta.files.fetch_add(1, Relaxed);
                self.open.insert(entry, OpenDelta { basis, parts: 0 });
            }
            DeltaStep::Decline => {
                let file = transfer.table.delta(entry)?;
                if file.begin_delta().is_none() {
                    return Err(not_begun().into());
                }
                transfer.table.want_more(file.decline_delta());
            }
            DeltaStep::Parts(parts) => {
                let delta = delta.ok_or_else(not_begun)?;
                delta.parts += parts.len();
                if delta.parts > PARTS_MAX {
                    return Err(PeerFault::Invalid("more parts of a file than the limit").into());
                }
                for part in parts {
                    let copied = take_part(transfer, &delta.basis, part)?;
                    // a thread that has stopped has reported the reason
                    copied.map(|step| self.steps.send(step).ok());
                }
            }
            DeltaStep::End => {
                let delta = self.open.remove(&entry).ok_or_else(not_begun)?;
                delta.basis.over.store(true, Relaxed);
                if !delta.basis.file.end_delta() {
                    return Err(PeerFault::Unexpected("the next part of a delta").into());
                }
                self.steps.send(SeedStep::End(entry)).ok();
            }
            DeltaStep::Failed { code, mut why } => {
                let delta = self.open.remove(&entry).ok_or_else(not_begun)?;
                delta.basis.over.store(true, Relaxed);
                delta.basis.file.end_delta();
                transfer.monitor.reasons.limit(&mut why);
                let error = Error::new(Code::from_number(code), why);
                jobs.send(Job::Failed(entry, error)).ok();
                self.steps.send(SeedStep::End(entry)).ok();
            }
        }
        Ok(())
    }
}

/// Handles a part. Returns the work of copying it, if the basis has it.
fn take_part(
    transfer: &Transfer<'_>,
    basis: &Arc<Basis>,
    part: Part,
) -> Result<Option<SeedStep>, Error> {
    let again = || PeerFault::Invalid("a part of a delta that was not requested");
    let counts = &transfer.monitor.delta;
    match part {
        Part::Missing(span) => {
            if !basis.file.decide_missing(span) {
                return Err(again().into());
            }
            basis.decide(span);
            transfer.table.want_more(span.1 - span.0);
            counts.missing.fetch_add(span.1 - span.0, Relaxed);
            Ok(None)
        }
        Part::Matched { span, from, digest } => {
            if !basis.file.decide_matched(span) {
                return Err(again().into());
            }
            let len = span.1 - span.0;
            let is_within = from.checked_add(len).is_some_and(|end| end <= basis.len);
            if len > RUN_MAX || !is_within || digest.kind() != basis.file.held_digest() {
                return Err(PeerFault::Invalid("a part that the basis does not have").into());
            }
            basis.decide(span);
            if from == span.0 {
                basis.confirmed.fetch_add(len, Relaxed);
            }
            counts.matched.fetch_add(len, Relaxed);
            Ok(Some(SeedStep::Copy(Arc::clone(basis), span, from, digest)))
        }
    }
}

/// Thread that copies parts.
pub(super) struct Seeder<'a> {
    pub(super) transfer: &'a Transfer<'a>,
    pub(super) files: TempFiles,
    /// Queue for equal parts and failed files.
    pub(super) jobs: Sender<Job>,
}

/// File that is being written.
struct Open {
    number: u64,
    output: Option<OutputFile>,
    /// Parts that differ, and that were not reported.
    wanted: Vec<Span>,
}

impl Seeder<'_> {
    /// Copies parts until the queue ends.
    pub(crate) fn run(&mut self, todo: &Receiver<SeedStep>) -> Result<(), Error> {
        let mut open: Option<Open> = None;
        let mut buffer = vec![0; COPIED];
        loop {
            let next = match todo.try_recv() {
                Ok(next) => next,
                Err(TryRecvError::Disconnected) => return Ok(()),
                Err(TryRecvError::Empty) => {
                    if let Some(open) = &mut open {
                        self.tell(open, false)?;
                    }
                    let Ok(next) = todo.recv() else { return Ok(()) };
                    next
                }
            };
            self.transfer.threads.check()?;
            match next {
                SeedStep::Copy(basis, span, from, digest) => {
                    let _step = self.transfer.threads.work.begin();
                    let file = self.file(&mut open, &basis.file)?;
                    self.copy(file, &basis, (span, from, digest), &mut buffer)?;
                }
                SeedStep::End(number) => {
                    let ended = open.take().filter(|open| open.number == number);
                    let mut ended = ended.unwrap_or(Open {
                        number,
                        output: None,
                        wanted: Vec::new(),
                    });
                    self.tell(&mut ended, true)?;
                }
            }
        }
    }

    /// Returns the open file, which is opened if it was another one.
    fn file<'o>(
        &mut self,
        open: &'o mut Option<Open>,
        file: &PendingFile,
    ) -> Result<&'o mut Open, Error> {
        let is_open = open.as_ref().is_some_and(|open| open.number == file.number);
        if !is_open {
            let output = self.files.open(file, Share::Part);
            let output = output.or_else(|error| self.fail(file, error).map(|()| None))?;
            *open = Some(Open {
                number: file.number,
                output,
                wanted: Vec::new(),
            });
        }
        open.as_mut()
            .ok_or_else(|| Error::new(Code::Io, "no file is open"))
    }

    /// Copies a part, and compares it with the digest of the sender.
    fn copy(
        &mut self,
        open: &mut Open,
        basis: &Basis,
        (span, from, theirs): (Span, u64, Digest),
        buffer: &mut [u8],
    ) -> Result<(), Error> {
        let file = &basis.file;
        let Some(output) = &mut open.output else {
            return Ok(());
        };
        if file.fill().failed {
            return Ok(());
        }
        let is_seeded = from == span.0 && basis.seeded(span) == Some(theirs);
        let copied = if is_seeded {
            Ok(true)
        } else {
            let is_sparse = self.files.sparse;
            copy(
                basis,
                (span, from, theirs),
                (&mut *output, is_sparse),
                buffer,
            )
            .and_then(|is_equal| file.note_version(output).map(|()| is_equal))
        };
        match copied {
            Ok(true) => {
                // a publisher that has stopped has reported the reason
                let job = Job::Seeded(Arc::clone(file), span, theirs);
                self.jobs.send(job).ok();
            }
            Ok(false) => {
                if file.owe(span) {
                    let len = span.1 - span.0;
                    self.transfer.table.want_more(len);
                    self.transfer.monitor.delta.matched.fetch_sub(len, Relaxed);
                    self.transfer.monitor.delta.missing.fetch_add(len, Relaxed);
                    open.wanted.push(span);
                }
                if open.wanted.len() >= PARTS_A_MESSAGE {
                    self.tell(open, false)?;
                }
            }
            Err(error) => {
                let error = self.files.fault(Attempt::Write, file, &error);
                open.output = None;
                self.fail(file, error)?;
            }
        }
        Ok(())
    }

    /// Records that a file has failed. An error of the disk ends the copy.
    fn fail(&self, file: &PendingFile, error: Error) -> Result<(), Error> {
        if error.code == Code::Io {
            return Err(error);
        }
        self.jobs.send(Job::Failed(file.number, error)).ok();
        Ok(())
    }

    /// Reports the parts that differ.
    fn tell(&self, open: &mut Open, last: bool) -> Result<(), Error> {
        if open.wanted.is_empty() && !last {
            return Ok(());
        }
        let seeded = Seeded {
            entry: open.number,
            wanted: std::mem::take(&mut open.wanted),
            last,
        };
        let listing = Listing::Seeded(seeded);
        let threads = &self.transfer.threads;
        threads.send(&self.transfer.stream, listing.encode())
    }
}

/// Copies a part of the basis. Returns false if what was written differs from the source, or the
/// basis cannot be read.
fn copy(
    basis: &Basis,
    (span, from, theirs): (Span, u64, Digest),
    (output, is_sparse): (&mut OutputFile, bool),
    buffer: &mut [u8],
) -> std::io::Result<bool> {
    let mut ours = RunningDigest::new(theirs.kind());
    let mut at = span.0;
    while at < span.1 {
        let part = (span.1 - at).min(buffer.len() as u64) as usize;
        let bytes = &mut buffer[..part];
        let read = basis
            .input
            .get()
            .map(|input| input.read_at(bytes, from + (at - span.0)));
        if !matches!(read, Some(Ok(count)) if count == part) {
            break;
        }
        ours.append(bytes);
        if is_sparse {
            sparse::write(output, bytes, at, FormerContent::Hole)?;
        } else {
            output.write_at(bytes, at)?;
        }
        at += part as u64;
    }
    let is_equal = at == span.1 && ours.finish() == theirs;
    if !is_equal && is_sparse {
        // zeros that arrive are not written, so the old bytes must be removed
        sparse::punch(output, span.0..span.1)?;
    }
    Ok(is_equal)
}
