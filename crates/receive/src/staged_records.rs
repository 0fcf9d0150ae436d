//! Records of staged files: what a part of a striped copy has written, and what other parts have.

use lighthaul_files::digest::Digest;
use lighthaul_files::object::Span;
use lighthaul_files::stage_log::{RangeState, StageLog, StagedRange, without_device};
use lighthaul_session::error::{Error, FileAction};

use super::entry_table::PendingFile;
use super::publish::Publisher;
use super::temp_files::replaced;

impl Publisher<'_> {
    /// Records the ranges of a staged file, which are on disk.
    pub(super) fn record(&mut self, file: &PendingFile, log: &StageLog) -> Result<(), Error> {
        let there = self.root.look(&file.temporary);
        let recorded = there.and_then(|there| {
            let fill = file.fill();
            let there = there.ok_or_else(replaced)?;
            if fill.version.is_some_and(|known| known.inode != there.inode) {
                return Err(replaced());
            }
            let ranges = fill.digests.iter().flat_map(|(ranges, digest)| {
                // several ranges have one digest only if they were copied from a basis
                ranges.iter().map(|span| (*span, *digest))
            });
            let range = |(span, digest)| StagedRange {
                path: file.entry.path.clone(),
                look: file.look(),
                mark: file.entry.mark,
                span,
                state: RangeState::Written {
                    version: without_device(there.version()),
                    digest,
                    sealed: self.protection.sealed,
                },
            };
            log.append(&ranges.map(range).collect::<Vec<_>>())
        });
        recorded.map_err(|error| self.fault(FileAction::WriteJournal, file.entry.path(), &error))
    }
}

impl PendingFile {
    /// Adds ranges that other parts of a striped copy have compared. Returns true if the file is complete.
    pub(super) fn add_staged(&self, ranges: Vec<(Span, Digest)>) -> bool {
        let mut fill = self.fill();
        let digests = ranges
            .into_iter()
            .map(|(span, digest)| (vec![span], digest));
        fill.digests.extend(digests);
        !fill.failed && fill.uncompared_bytes == 0
    }
}
