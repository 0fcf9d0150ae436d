//! Hard links to unchanged files of other directories (`--link-dest`).

use std::ffi::OsStr;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use lighthaul_files::manifest::{Entry, EntryKind, Linked};
use lighthaul_files::options::Action;
use lighthaul_fs::disk::Root;
use lighthaul_session::error::{Error, FileAction};
use rustix::fs::FileType;

use super::decide::has_content;
use super::entry_checker::{EntryChecker, Place};
use super::entry_table::Settled;
use super::references::References;

impl EntryChecker<'_> {
    /// Returns true if the target lacked the file and is now a hard link to an unchanged file in another directory.
    pub(super) fn links_to_other(
        &self,
        place: &mut Place,
        number: u64,
        entry: &Entry,
    ) -> Result<bool, Error> {
        let is_file = matches!(entry.kind, EntryKind::File(_));
        let follows = self.transfer.options().hard_links && matches!(entry.linked, Linked::To(_));
        if self.transfer.options().link_dest.is_empty() || !is_file || follows {
            return Ok(false);
        }
        if self.transfer.options().expects() || Self::look(place, entry)?.is_some() {
            return Ok(false);
        }
        let mut references = mem::take(&mut place.references);
        let linked = self.link_to_any(place, &mut references, entry);
        place.references = references;
        if !linked? {
            return Ok(false);
        }
        if self.prunes() {
            place.source_names.add(entry)?;
        }
        self.check_name(place, number, entry)?;
        if self.transfer.options().dry_run.is_some() {
            self.plan(Action::Link, entry, "another directory has it unchanged")?;
        } else {
            self.is_linked(number, entry);
        }
        // without a digest, only size and time of the content were compared
        let settled = match entry.digest {
            Some(_) => Settled::Now,
            None => Settled::Before,
        };
        self.transfer.table.settle(number, entry, Ok(settled));
        Ok(true)
    }

    /// Links the entry to the first directory that has it unchanged. A dry run only looks for it.
    fn link_to_any(
        &self,
        place: &mut Place,
        references: &mut References,
        entry: &Entry,
    ) -> Result<bool, Error> {
        let roots = match &mut references.0 {
            Some(roots) => roots,
            closed => closed.insert(self.open_references(place)?),
        };
        let below = place.target_folder.below_top(entry);
        for root in roots {
            if !self.is_unchanged(root, &below) {
                continue;
            }
            if self.transfer.options().dry_run.is_some() {
                return Ok(true);
            }
            // a file with too many names, or on another file system, is copied
            if place
                .root
                .hard_link_from(root, below.path(), entry.path())
                .is_ok()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Opens the directories that the user gave. One that does not exist is reported, as in rsync.
    fn open_references(&self, place: &Place) -> Result<Vec<Root>, Error> {
        let mut roots = Vec::new();
        for folder in &self.transfer.options().link_dest {
            let folder = Path::new(OsStr::from_bytes(folder));
            let path = place.target_folder.top_place().join(folder);
            match place.target_folder.access().root(&path) {
                Ok(root) => roots.push(root),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    let text = format!("--link-dest {} does not exist", path.display());
                    self.transfer.monitor.warn(text);
                }
                Err(error) => return Err(Error::file(FileAction::OpenReference, &path, &error)),
            }
        }
        Ok(roots)
    }

    /// Returns true if the file in `root` has the content and metadata of `entry`.
    fn is_unchanged(&self, root: &mut Root, entry: &Entry) -> bool {
        let Ok(Some(there)) = root.look(entry.path()) else {
            return false;
        };
        let same = there.kind == FileType::RegularFile
            && there.size == entry.size()
            && (there.seconds, there.nanos) == (entry.seconds, entry.nanos)
            && there.mode == entry.mode & 0o7777;
        let is_equal = match entry.digest {
            Some(sum) => has_content(root, entry, sum),
            // a file that the source could not read
            None => !self.transfer.options().checksum,
        };
        same && is_equal
            && (entry.extras.is_none() || self.metadata.differences(root, entry).is_empty())
    }
}
