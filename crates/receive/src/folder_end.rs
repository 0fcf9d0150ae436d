//! Directories while their contents arrive, and their ends: their metadata is set when all contents are in place.

use std::path::Path;

use lighthaul_files::manifest::Entry;
use lighthaul_files::options::Action;
use lighthaul_files::permit::SPECIAL;
use lighthaul_files::writer_lock::is_unfinished;
use lighthaul_session::error::Error;

use super::entry_checker::{EntryChecker, Place};
use super::entry_table::Settled;

impl EntryChecker<'_> {
    /// Handles the end of a directory.
    pub(super) fn leave(&self, place: &mut Place, number: u64, entry: &Entry) -> Result<(), Error> {
        // the part that publishes finishes directories, and object stores have none
        if self.transfer.options().stages()
            || entry.is_top() && !self.takes_top(place)
            || place.target_folder.objects().is_some()
        {
            self.transfer.table.settle(number, entry, Ok(Settled::Now));
            return Ok(());
        }
        if self.transfer.options().dry_run.is_none() {
            if entry.is_top() {
                self.itemize_top(place, number, entry)?;
            }
            self.transfer.table.end_folder(number, entry.clone());
            return Ok(());
        }
        if entry.is_top() && place.target_folder.is_there() {
            let there = Self::look(place, entry)?;
            let (action, why) = self.decide(place, entry, there);
            self.report_plan(place, entry, (there, action, why), 0)?;
        }
        self.transfer.table.settle(number, entry, Ok(Settled::Now));
        Ok(())
    }

    /// Prepares the target directory, if it corresponds to one source directory. Returns true if this copy or an
    /// unfinished copy created it, so that it gets the metadata of the source at the end. Until then it is private,
    /// since the source directory may be.
    pub(super) fn begin_top(&self, place: &mut Place) -> bool {
        let options = self.transfer.options();
        if options.dry_run.is_none() && is_unfinished(&mut place.root) {
            place.target_folder.mark_unfinished();
        }
        let top = Path::new("");
        if self.takes_top(place) {
            self.make_writable(place, top);
        }
        let made = place.target_folder.is_new();
        if made
            && options.dry_run.is_none()
            && options.striped.is_none()
            && let Ok(Some(there)) = place.root.look(top)
        {
            let mode = there.mode & SPECIAL | 0o700;
            place.root.set_folder_mode(top, mode).ok();
        }
        made
    }

    /// Makes the directory `path` writable, if this user owns it. It gets its mode when all its contents are in place.
    pub(super) fn make_writable(&self, place: &mut Place, path: &Path) {
        if self.transfer.options().dry_run.is_none() {
            // if that fails, writing may still succeed, or report the error
            place.root.open_up(path).ok();
        }
    }

    /// Returns true if the target directory gets the metadata of the source directory. An existing directory
    /// may be shared, like /tmp, so it changes only if the user preserves all metadata.
    pub(super) const fn takes_top(&self, place: &Place) -> bool {
        place.target_folder.is_new() || self.transfer.options().keep.owner
    }

    /// Records the differences of the target directory from before the copy.
    fn itemize_top(&self, place: &mut Place, number: u64, entry: &Entry) -> Result<(), Error> {
        let there = place.top.filter(|_| !place.target_folder.is_new());
        let action = match there {
            Some(_) => Action::Keep,
            None => Action::Create,
        };
        self.itemize(place, number, entry, (there, action))
    }
}
