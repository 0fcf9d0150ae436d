//! Ranges that an earlier run left at the target: each is read back and compared with the sender's digest of its own
//! bytes, while lanes receive what is missing. Whatever differs is sent again.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use lighthaul_files::digest::{Digest, Taking};
use lighthaul_files::object::Span;
use lighthaul_io::control::Frame;
use lighthaul_io::fs::sparse;
use lighthaul_session::error::{Code, Error};

use super::job::Job;
use super::ledger::Pending;
use super::temp_files::{Attempt, TempFiles};
use super::transfer::Transfer;
use crate::message::{Compared, Listing, Report};

/// A range that is there, and what the sender says of its own bytes.
#[derive(Debug)]
pub(crate) struct HeldRange {
    pub(crate) file: Arc<Pending>,
    pub(crate) span: Span,
    pub(crate) report: Report,
}

/// The thread that compares held ranges.
pub(super) struct HeldCheck<'a> {
    pub(super) transfer: &'a Transfer<'a>,
    pub(super) files: TempFiles,
    /// Hears of ranges that agree, and of files that fail.
    pub(super) jobs: Sender<Job>,
}

impl HeldCheck<'_> {
    /// Compares ranges until no more can come.
    pub(crate) fn run(&mut self, todo: &Receiver<HeldRange>) -> Result<(), Error> {
        for held in todo {
            self.transfer.crew.check()?;
            let (entry, span) = (held.file.number, held.span);
            let step = self.transfer.crew.work.begin();
            let wanted = self.check(held)?;
            drop(step);
            let compared = Compared {
                entry,
                span,
                wanted,
            };
            let answer = Listing::Compared(compared).encode();
            self.transfer.stream.send(&Frame::message(answer))?;
        }
        Ok(())
    }

    /// Compares a range; answers whether it must be sent.
    fn check(&mut self, HeldRange { file, span, report }: HeldRange) -> Result<bool, Error> {
        let theirs = match report {
            Report::Digest(theirs) => theirs,
            Report::Failed { code, why } => {
                self.fail(&file, Error::new(Code::from_number(code), why));
                return Ok(false);
            }
        };
        match self.agrees(&file, span, theirs) {
            Ok(None) => Ok(false),
            Ok(Some(true)) => {
                // a publisher that is gone has said why
                self.jobs.send(Job::Kept(file, span, theirs)).ok();
                Ok(false)
            }
            Ok(Some(false)) => Ok(self.send_again(&file, span)),
            Err(error) if error.code == Code::Io => Err(error),
            Err(error) => {
                self.fail(&file, error);
                Ok(false)
            }
        }
    }

    /// Wants a range after all; answers false for a file that has failed.
    fn send_again(&self, file: &Pending, span: Span) -> bool {
        let wanted = file.owe(span);
        if wanted {
            self.transfer.ledger.want_more(span.1 - span.0);
        }
        wanted
    }

    /// Whether the file has these bytes; nothing if it has failed.
    fn agrees(
        &mut self,
        file: &Pending,
        (from, till): Span,
        theirs: Digest,
    ) -> Result<Option<bool>, Error> {
        let Some(mut output) = self.files.open(file)? else {
            return Ok(None);
        };
        let read = |at: u64, buffer: &mut [u8]| {
            output.read_at(buffer, from + at)?;
            Ok(buffer.len())
        };
        // what cannot be read is not there
        let ours = Taking::of(file.held_digest(), till - from, read).ok();
        let agrees = ours == Some(theirs);
        if !agrees && self.files.sparse {
            // zeros that come are not written: what is there must not show through
            sparse::punch(&mut output, from..till)
                .map_err(|error| self.files.fault(Attempt::Write, file, &error))?;
        }
        Ok(Some(agrees))
    }

    fn fail(&self, file: &Pending, error: Error) {
        self.jobs.send(Job::Failed(file.number, error)).ok();
    }
}
