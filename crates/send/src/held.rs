//! Ranges that the receiver holds from an earlier run. The sender sends digests of its own bytes in
//! each, and the receiver compares them. Ranges that differ are sent.

use std::io::{self, ErrorKind};

use lighthaul_copy::error::Fault;
use lighthaul_copy::message::{HeldDigest, Message};
use lighthaul_copy::report::Report;
use lighthaul_files::digest::{Digest, Digester};
use lighthaul_files::source_store::{self, SourceFile};
use lighthaul_session::error::Error;

use super::item::Item;
use super::queue::HeldRange;
use super::transfer::Transfer;

/// Thread that digests held ranges, while lanes send missing ranges.
pub(super) struct HeldReader<'a> {
    pub(super) transfer: &'a Transfer<'a>,
}

impl HeldReader<'_> {
    /// Sends the digest of each range that the receiver holds.
    pub(crate) fn run(&self) -> Result<(), Error> {
        let mut open = None;
        while let Some(held) = self.transfer.queue.take_held(&self.transfer.threads)? {
            let step = self.transfer.threads.work.begin();
            let digest = self.digest(&held, &mut open);
            drop(step);
            let report = match digest {
                Ok(digest) => Report::Digest(digest),
                Err(error) => Report::Failed {
                    code: error.code() as u8,
                    why: error.text(),
                },
            };
            self.transfer.say(&Message::Held(HeldDigest {
                entry: held.piece.entry,
                span: (held.piece.offset, held.piece.end()),
                report,
            }))?;
        }
        Ok(())
    }

    /// Returns the digest of a range, if the file is unchanged since it was listed.
    fn digest(
        &self,
        held: &HeldRange,
        open: &mut Option<(u64, SourceFile)>,
    ) -> Result<Digest, Error> {
        let (piece, item) = (held.piece, &held.item);
        if open.as_ref().is_none_or(|(entry, _)| *entry != piece.entry) {
            *open = Some((piece.entry, self.open(item)?));
        }
        let Some((_, file)) = open else {
            return Err(changed(item));
        };
        let read =
            |at: u64, buffer: &mut [u8]| file.read_in(buffer, piece.offset + at, Some(piece.end()));
        let digest = Digester::compute(held.digest, piece.len, read);
        let digest = digest.map_err(|error| unreadable(item, &error))?;
        match item.is_unchanged(file) {
            Ok(true) => Ok(digest),
            _ => Err(changed(item)),
        }
    }

    fn open(&self, item: &Item) -> Result<SourceFile, Error> {
        let file = self.transfer.sources.file(&item.place);
        file.map_err(|error| unreadable(item, &error))
    }
}

/// Returns the error of a file that is missing, shorter or unreadable.
pub(super) fn unreadable(item: &Item, error: &io::Error) -> Error {
    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) {
        return changed(item);
    }
    source_store::unreadable(&item.place, error)
}

/// Returns the error of a file that has changed.
pub(super) fn changed(item: &Item) -> Error {
    Fault::Changed {
        place: item.place.clone(),
        how: "it changed after it was listed",
    }
    .into()
}
