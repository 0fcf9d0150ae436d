//! Comparison of ranges that an earlier run left at the target, or that are copied from a basis.
//!
//! Each range is read back, or copied, and compared with the sender's digest of its own bytes, while lanes
//! receive what is missing. Ranges that differ are sent again.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use lighthaul_copy::held_parts::{HeldPart, HeldParts};
use lighthaul_copy::message::{Compared, Listing};
use lighthaul_copy::object_target::ObjectUpload;
use lighthaul_copy::report::Report;
use lighthaul_files::delta::stretch::Copied;
use lighthaul_files::digest::{Digest, DigestKind, Digester};
use lighthaul_files::object::Span;
use lighthaul_fs::disk::{InputFile, OutputFile};
use lighthaul_fs::sparse::{self, FormerContent};
use lighthaul_session::error::{Code, Error};
use lighthaul_session::fault::PeerFault;

use super::entry_table::PendingFile;
use super::job::Job;
use super::temp_files::{Attempt, Share, TempFiles};
use super::transfer::Transfer;

/// Bytes that are copied at a time.
const COPIED: usize = 1 << 20;

/// Range at the target, and the sender's report about its own bytes.
#[derive(Debug)]
pub(crate) struct HeldRange {
    pub(crate) file: Arc<PendingFile>,
    pub(crate) span: Span,
    /// Parts of the range that are copied from the basis; empty for a range from an earlier run.
    pub(crate) copies: Vec<Copied>,
    pub(crate) report: Report,
}

/// Thread that compares held ranges.
pub(super) struct HeldCheck<'a> {
    transfer: &'a Transfer<'a>,
    files: TempFiles,
    /// Queue for equal ranges and failed files.
    jobs: Sender<Job>,
    /// Parts of objects that are compared.
    parts: HeldParts,
    /// The most recently read basis, with the number of its file.
    basis: Option<(u64, InputFile)>,
}

impl<'a> HeldCheck<'a> {
    pub(super) fn new(transfer: &'a Transfer<'a>, files: TempFiles, jobs: Sender<Job>) -> Self {
        Self {
            transfer,
            files,
            jobs,
            parts: HeldParts::default(),
            basis: None,
        }
    }

    /// Compares ranges until the queue ends.
    pub(crate) fn run(&mut self, todo: &Receiver<HeldRange>) -> Result<(), Error> {
        for held in todo {
            self.transfer.threads.check()?;
            let (file, span) = (Arc::clone(&held.file), held.span);
            let step = self.transfer.threads.work.begin();
            let answers = match &file.upload {
                Some(upload) => self.check_part(&held, &**upload)?,
                None => vec![(span, self.check(held)?)],
            };
            drop(step);
            for (span, wanted) in answers {
                let compared = Compared {
                    entry: file.number,
                    span,
                    wanted,
                };
                let answer = Listing::Compared(compared).encode();
                let threads = &self.transfer.threads;
                threads.send(&self.transfer.stream, answer)?;
            }
        }
        Ok(())
    }

    /// Compares a part of an object, once all of its ranges have come. Returns them, each with true if it must be sent.
    fn check_part(
        &mut self,
        held: &HeldRange,
        upload: &dyn ObjectUpload,
    ) -> Result<Vec<(Span, bool)>, Error> {
        let file = &held.file;
        let part = file.held_part(held.span);
        let part = part.ok_or(PeerFault::Invalid("a digest that was not requested"))?;
        let report = (held.span, &held.report);
        let judged = self.parts.add(upload, (file.number, part), report)?;
        let (ranges, is_kept) = match judged {
            HeldPart::Open => return Ok(Vec::new()),
            HeldPart::Failed(spans, fault) => {
                self.fail(file, fault.into());
                return Ok(spans.into_iter().map(|span| (span, false)).collect());
            }
            HeldPart::Whole(ranges, is_kept) => (ranges, is_kept),
        };
        let mut answers = Vec::new();
        for (span, digest) in ranges {
            if is_kept {
                // a publisher that has stopped has reported the reason
                let kept = Job::Kept(Arc::clone(file), span, digest);
                self.jobs.send(kept).ok();
            }
            answers.push((span, !is_kept && self.transfer.table.owe(file, span)?));
        }
        Ok(answers)
    }

    /// Compares a range. Returns true if it must be sent.
    fn check(&mut self, held: HeldRange) -> Result<bool, Error> {
        let HeldRange {
            file,
            span,
            copies,
            report,
        } = held;
        let theirs = match report {
            Report::Digest(theirs) => theirs,
            Report::Failed { code, why } => {
                self.fail(&file, PeerFault::reported(code, why).into());
                return Ok(false);
            }
        };
        let agrees = if copies.is_empty() {
            self.agrees(&file, span, theirs)
        } else {
            self.copy(&file, &copies, theirs)
        };
        let ranges = || copies.iter().map(|copied| copied.span());
        match agrees {
            Ok(None) => Ok(false),
            Ok(Some(true)) => {
                let job = match copies.as_slice() {
                    [] => Job::Kept(file, span, theirs),
                    _ => Job::Copied(file, joined(ranges()), theirs),
                };
                // a publisher that has stopped has reported the reason
                self.jobs.send(job).ok();
                Ok(false)
            }
            Ok(Some(false)) if copies.is_empty() => self.transfer.table.owe(&file, span),
            Ok(Some(false)) => {
                let bytes = copies.iter().map(|copied| copied.len).sum();
                self.transfer.monitor.delta().differ(bytes);
                let owe = |_, span| self.transfer.table.owe(&file, span);
                ranges().try_fold(false, owe)
            }
            Err(error) if error.code() == Code::Io => Err(error),
            Err(error) => {
                self.fail(&file, error);
                Ok(false)
            }
        }
    }

    /// Returns true if the bytes of the range have the digest `theirs`, or none if the file has failed.
    fn agrees(
        &mut self,
        file: &PendingFile,
        (from, till): Span,
        theirs: Digest,
    ) -> Result<Option<bool>, Error> {
        let Some(mut output) = self.files.open(file, Share::Part)? else {
            return Ok(None);
        };
        let read = |at: u64, buffer: &mut [u8]| {
            output.read_at(buffer, from + at)?;
            Ok(buffer.len())
        };
        // bytes that cannot be read count as missing
        let ours = Digester::compute(file.held_digest(), till - from, read).ok();
        let agrees = ours == Some(theirs);
        if !agrees && self.files.sparse {
            // zeros that arrive are not written, so the old bytes must be removed
            sparse::punch(&mut output, from..till)
                .map_err(|error| self.files.fault(Attempt::Write, file, &error))?;
        }
        Ok(Some(agrees))
    }

    /// Copies parts of the basis. Returns true if their bytes have the digest of the sender, or none if the file has
    /// failed.
    fn copy(
        &mut self,
        file: &PendingFile,
        copies: &[Copied],
        theirs: Digest,
    ) -> Result<Option<bool>, Error> {
        let Some(mut output) = self.files.open(file, Share::Part)? else {
            return Ok(None);
        };
        let copied = self.copied(file, copies, &mut output);
        let agrees = copied.and_then(|ours| {
            let agrees = ours == Some(theirs);
            if !agrees && self.files.sparse {
                // zeros that arrive are not written, so the old bytes must be removed
                for copied in copies {
                    let (from, till) = copied.span();
                    sparse::punch(&mut output, from..till)?;
                }
            }
            file.note_version(&output)?;
            Ok(agrees)
        });
        agrees
            .map(Some)
            .map_err(|error| self.files.fault(Attempt::Write, file, &error))
    }

    /// Copies parts of the basis. Returns the digest of their bytes, or none if they cannot be read.
    fn copied(
        &mut self,
        file: &PendingFile,
        copies: &[Copied],
        output: &mut OutputFile,
    ) -> io::Result<Option<Digest>> {
        let is_open = self
            .basis
            .as_ref()
            .is_some_and(|open| open.0 == file.number);
        if !is_open {
            let input = self.files.root.read(file.entry.path());
            self.basis = input.ok().map(|input| (file.number, input));
        }
        let Some((_, input)) = &self.basis else {
            return Ok(None);
        };
        let bytes = copies.iter().map(|copied| copied.len).sum();
        let mut digester = Digester::new(DigestKind::Blake3, bytes);
        let mut buffer = vec![0; COPIED.min(bytes as usize)];
        let mut done = 0;
        for copied in copies {
            let mut at = 0;
            while at < copied.len {
                let part = (copied.len - at).min(buffer.len() as u64) as usize;
                let part = &mut buffer[..part];
                if input.read_at(part, copied.from + at).ok() != Some(part.len()) {
                    return Ok(None);
                }
                digester.update(done, part);
                if self.files.sparse {
                    sparse::write(output, part, copied.offset + at, FormerContent::Hole)?;
                } else {
                    output.write_at(part, copied.offset + at)?;
                }
                at += part.len() as u64;
                done += part.len() as u64;
            }
        }
        Ok(digester.finish())
    }

    fn fail(&self, file: &PendingFile, error: Error) {
        self.jobs.send(Job::Failed(file.number, error)).ok();
    }
}

/// Returns the ranges, which are in order, with adjacent ranges joined.
fn joined(ranges: impl Iterator<Item = Span>) -> Vec<Span> {
    let mut joined: Vec<Span> = Vec::new();
    for (from, till) in ranges {
        match joined.last_mut() {
            Some(last) if last.1 == from => last.1 = till,
            _ => joined.push((from, till)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_adjacent_ranges_are_joined() {
        let ranges = [(0, 4), (4, 8), (9, 10), (10, 12), (20, 21)];
        let joined = joined(ranges.into_iter());
        assert_eq!(joined, [(0, 8), (9, 12), (20, 21)]);
    }
}
