//! Comparison of ranges that an earlier run left at the target.
//!
//! Each range is read back and compared with the sender's digest of its own bytes, while lanes
//! receive what is missing. Ranges that differ are sent again.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use lighthaul_copy::message::{Compared, Listing, Report};
use lighthaul_files::digest::{Digest, Digester};
use lighthaul_files::object::Span;
use lighthaul_fs::sparse;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::fault::PeerFault;

use super::entry_table::PendingFile;
use super::job::Job;
use super::temp_files::{Attempt, Share, TempFiles};
use super::transfer::Transfer;

/// Range at the target, and the sender's report about its own bytes.
#[derive(Debug)]
pub(crate) struct HeldRange {
    pub(crate) file: Arc<PendingFile>,
    pub(crate) span: Span,
    pub(crate) report: Report,
}

/// Thread that compares held ranges.
pub(super) struct HeldCheck<'a> {
    pub(super) transfer: &'a Transfer<'a>,
    pub(super) files: TempFiles,
    /// Queue for equal ranges and failed files.
    pub(super) jobs: Sender<Job>,
}

impl HeldCheck<'_> {
    /// Compares ranges until the queue ends.
    pub(crate) fn run(&mut self, todo: &Receiver<HeldRange>) -> Result<(), Error> {
        for held in todo {
            self.transfer.threads.check()?;
            let (entry, span) = (held.file.number, held.span);
            let step = self.transfer.threads.work.begin();
            let wanted = self.check(held)?;
            drop(step);
            let compared = Compared {
                entry,
                span,
                wanted,
            };
            let answer = Listing::Compared(compared).encode();
            let threads = &self.transfer.threads;
            threads.send(&self.transfer.stream, answer)?;
        }
        Ok(())
    }

    /// Compares a range. Returns true if it must be sent.
    fn check(&mut self, HeldRange { file, span, report }: HeldRange) -> Result<bool, Error> {
        let theirs = match report {
            Report::Digest(theirs) => theirs,
            Report::Failed { code, why } => {
                self.fail(&file, PeerFault::reported(code, why).into());
                return Ok(false);
            }
        };
        match self.agrees(&file, span, theirs) {
            Ok(None) => Ok(false),
            Ok(Some(true)) => {
                // a publisher that has stopped has reported the reason
                self.jobs.send(Job::Kept(file, span, theirs)).ok();
                Ok(false)
            }
            Ok(Some(false)) => Ok(self.send_again(&file, span)),
            Err(error) if error.code() == Code::Io => Err(error),
            Err(error) => {
                self.fail(&file, error);
                Ok(false)
            }
        }
    }

    /// Requests a range that differs. Returns false for a file that has failed.
    fn send_again(&self, file: &PendingFile, span: Span) -> bool {
        let wanted = file.owe(span);
        if wanted {
            self.transfer.table.want_more(span.1 - span.0);
        }
        wanted
    }

    /// Returns true if the file has these bytes, or none if it has failed.
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

    fn fail(&self, file: &PendingFile, error: Error) {
        self.jobs.send(Job::Failed(file.number, error)).ok();
    }
}
