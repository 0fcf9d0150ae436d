//! Entries that options leave unchanged at the target, and backups of entries that change.

use std::path::Path;

use lighthaul_copy::message::WantedFile;
use lighthaul_files::backups::Backups;
use lighthaul_files::manifest::{Entry, EntryKind};
use lighthaul_files::options::{Action, Detail};
use lighthaul_files::skip::Skip;
use lighthaul_session::error::{Error, FileAction};
use rustix::fs::FileType;

use super::entry_checker::{EntryChecker, Place};

impl EntryChecker<'_> {
    /// Handles an entry, unless an option leaves it out or it becomes a hard link. Returns the file if it must be sent.
    pub(super) fn check(
        &self,
        place: &mut Place,
        number: u64,
        entry: &Entry,
    ) -> Result<Option<WantedFile>, Error> {
        if self.leaves_out(place, number, entry)? || self.links_to_other(place, number, entry)? {
            return Ok(None);
        }
        self.check_entry(place, number, entry)
    }

    /// Returns true if an option leaves the entry unchanged at the target.
    fn leaves_out(&self, place: &mut Place, number: u64, entry: &Entry) -> Result<bool, Error> {
        let skip = &self.transfer.options().skip;
        if *skip == Skip::default() || entry.kind == EntryKind::FolderEnd {
            return Ok(false);
        }
        let there = Self::look(place, entry)?;
        let there = there.map(|there| there.kind == FileType::Directory);
        let Some(why) = skip.reason(entry, there) else {
            return Ok(false);
        };
        // the source has it, so that it is not deleted
        if self.prunes() {
            place.source_names.add(entry)?;
        }
        if entry.kind == EntryKind::Folder {
            place.skipped.add(&entry.path)?;
        }
        if self.transfer.options().dry_run == Some(Detail::Explain) {
            self.plan(Action::Skip, entry, why)?;
        }
        self.transfer.table.skip(number, entry);
        Ok(true)
    }

    /// Prepares backups, and records the metadata of the target directory.
    pub(super) fn begin(&self, place: &mut Place) {
        let options = self.transfer.options();
        if options.itemize {
            place.top = place.root.look(Path::new("")).ok().flatten();
        }
        if let Some(backup) = &options.backup {
            let target = &place.target_folder;
            let target = (target.access(), target.folder.as_path(), target.top());
            let backups = Backups::new(backup, target, self.writer.clone());
            self.transfer.table.backups.set(backups).ok();
        }
    }

    /// Keeps a backup of the item that `entry` is about to replace. The publisher does this for
    /// files whose data is sent.
    pub(super) fn back_up(&self, place: &mut Place, entry: &Entry) -> Result<(), Error> {
        let Some(backups) = self.transfer.table.backups.get() else {
            return Ok(());
        };
        let is_sent = matches!(entry.kind, EntryKind::File(_)) && !entry.data().is_empty();
        if is_sent || entry.kind == EntryKind::Folder {
            return Ok(());
        }
        let kept = backups.keep(&mut place.root, entry.path());
        kept.map_err(|error| place.fault(FileAction::KeepBackup, entry, &error))
    }
}
