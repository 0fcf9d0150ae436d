//! Deletion of items that the target has and the source does not, if the user asks for it.
//!
//! When the list of a directory ends, `EntryChecker::remove` compares the names at the target with
//! those of the source. A name by which the target shows a listed item stays. The rest is removed, each item after its backup, and both sides learn each
//! path. Items stay if a rule excludes them, if they are backups, special or temporary files, or if
//! `--max-delete` is reached. Once some of the source could not be read, or the copy has failed,
//! nothing more is deleted. A dry run only reports.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use lighthaul_copy::error::Fault;
use lighthaul_copy::message::{Failure, Listing, in_parts};
use lighthaul_copy::watch::{CopyEvent, Failed};
use lighthaul_files::filter::Decision;
use lighthaul_files::manifest::{Entry, EntryKind};
use lighthaul_files::options::Action;
use lighthaul_files::special::special;
use lighthaul_files::temp_place::TempPlace;
use lighthaul_fs::disk::Root;
use lighthaul_fs::meta::Meta;
use lighthaul_session::error::{Error, FileAction};
use rustix::fs::FileType;

use super::entry_checker::{EntryChecker, Place};

/// Deepest nesting of directories that are removed.
const DEPTH_MAX: usize = 400;
/// Maximum number of removed paths that are reported together.
const REMOVED_MAX: usize = 200;

impl EntryChecker<'_> {
    /// Returns true if items that the source does not have are deleted. A list of paths names only
    /// parts of directories, so nothing is deleted with it.
    pub(super) const fn prunes(&self) -> bool {
        self.transfer.options().delete && !self.transfer.options().listed
    }

    /// Deletes the items of `folder` that the source directory does not have. Without `folder`, deletes those of the
    /// target directory. Items that a rule excludes stay.
    pub(super) fn remove(&self, place: &mut Place, folder: Option<&Entry>) -> Result<(), Error> {
        if !self.prunes() {
            return Ok(());
        }
        let path = folder.map_or(&[][..], |entry| &entry.path);
        let there = match place.root.names(Path::new(OsStr::from_bytes(path)), b"") {
            // a dry run creates no directories
            _ if place.is_emptied(path) => Vec::new(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            there => there.map_err(|error| failed(place, &error, path))?,
        };
        let mut listed = BTreeSet::new();
        let (names, root) = (&mut place.source_names, &mut place.root);
        let surplus = names.end_folder(path, there, &mut |path| {
            listed.extend(item(root, as_path(&path)));
        });
        for gone in surplus {
            let is_listed = |item: &(u64, u64)| listed.contains(item);
            if !listed.is_empty() && item(&mut place.root, as_path(&gone)).iter().all(is_listed) {
                // the target shows a listed name differently, as one that ignores case may
                continue;
            }
            self.prune(place, gone)?;
        }
        if let Some(why) = place.source_names.take_warning() {
            self.transfer.monitor.warn(why);
        }
        Ok(())
    }

    /// Deletes the item at `path`, or reports it in a dry run.
    fn prune(&self, place: &mut Place, path: Vec<u8>) -> Result<(), Error> {
        if self.transfer.options().dry_run.is_some() {
            return self.plan_removal(place, path, 0).map(drop);
        }
        if let Err(error) = self.remove_tree(place, &path) {
            let error = failed(place, &error, &path);
            self.report_kept(path, &error);
        }
        Ok(())
    }

    /// Reports the deletions of a dry run in the tree at `path`. Returns true if all of it goes.
    fn plan_removal(&self, place: &mut Place, path: Vec<u8>, depth: usize) -> Result<bool, Error> {
        let at = Path::new(OsStr::from_bytes(&path));
        let there = place.root.look(at).ok().flatten();
        let Some(kind) = there.map(|there| there.kind) else {
            return Ok(true);
        };
        if self.keeps(place, &path, kind) {
            return Ok(false);
        }
        if kind == FileType::Directory && depth < DEPTH_MAX {
            let mut gone = true;
            for name in place.root.names(at, b"").unwrap_or_default() {
                let inner = [&path, &b"/"[..], name.as_bytes()].concat();
                gone &= self.plan_removal(place, inner, depth + 1)?;
            }
            if !gone || self.keeps(place, &path, kind) {
                return Ok(false);
            }
        }
        place.deletions.count();
        let entry = Entry::bare(path);
        self.plan(Action::Delete, &entry, "the source does not have it")?;
        Ok(true)
    }

    /// With `--delete`, removes an item of another type where `entry` will be. Returns the metadata
    /// of the item that remains, if any.
    pub(super) fn make_room(
        &self,
        place: &mut Place,
        entry: &Entry,
        there: Option<Meta>,
    ) -> Result<Option<Meta>, Error> {
        let Some(obstacle) = place.target_folder.obstacle(entry, there)? else {
            return Ok(there);
        };
        if !self.prunes() {
            return Err(Fault::InTheWay(obstacle).into());
        }
        if self.transfer.options().dry_run.is_some() {
            if entry.kind == EntryKind::Folder {
                place.emptied.add(&entry.path)?;
            }
            return Ok(there);
        }
        place.deletions.is_exempt.set(true);
        let removed = self.remove_tree(place, &entry.path);
        place.deletions.is_exempt.set(false);
        removed.map_err(|error| failed(place, &error, &entry.path))?;
        let there = place.root.look(entry.path());
        if !matches!(there, Ok(None)) {
            return Err(Fault::Protected(obstacle).into());
        }
        Ok(None)
    }

    /// Removes the tree at `path`, except protected entries, and reports the removed paths to both sides.
    fn remove_tree(&self, place: &mut Place, path: &[u8]) -> io::Result<()> {
        let mut root = place.root.another()?;
        let gone = RefCell::new(Vec::new());
        // the last backup, which keeps the directories above it
        let backup = RefCell::new(None);
        let removed = {
            // a copy that has failed or lost its rights removes nothing more
            let keep = |path: &[u8], kind| {
                self.transfer.threads.work.advance();
                self.transfer.threads.check().is_err()
                    || self.keeps(place, path, kind)
                    || !self.is_backed_up(place, path, kind, &mut backup.borrow_mut())
            };
            let note = |path: &[u8]| {
                place.deletions.count();
                gone.borrow_mut().push(path.to_vec());
                if gone.borrow().len() >= REMOVED_MAX {
                    self.report_removed(gone.take());
                }
            };
            root.remove_tree(Path::new(OsStr::from_bytes(path)), &keep, &note)
        };
        self.report_removed(gone.take());
        removed
    }

    /// Reports removed paths to both sides, as fast as the sender reads.
    fn report_removed(&self, paths: Vec<Vec<u8>>) {
        if paths.is_empty() {
            return;
        }
        for paths in in_parts(paths) {
            let listing = Listing::Removed(paths.clone());
            // the thread that receives notices a lost connection
            let threads = &self.transfer.threads;
            threads.send(&self.transfer.stream, listing.encode()).ok();
            self.transfer.monitor.show(CopyEvent::Removed(paths));
        }
    }

    /// Keeps a backup of the item that is about to be deleted, if the user wants backups. Returns
    /// false if that failed, or if it is a directory that contains the backup `last`, so that the item
    /// stays.
    fn is_backed_up(
        &self,
        place: &Place,
        path: &[u8],
        kind: FileType,
        last: &mut Option<Vec<u8>>,
    ) -> bool {
        let Some(backups) = self.transfer.table.backups.get() else {
            return true;
        };
        if kind == FileType::Directory {
            let rest = last.as_ref().and_then(|last| last.strip_prefix(path));
            return !rest.is_some_and(|rest| rest.starts_with(b"/"));
        }
        let root = place.root.another();
        let kept =
            root.and_then(|mut root| backups.keep(&mut root, Path::new(OsStr::from_bytes(path))));
        if let Err(error) = &kept {
            let at = place.target_folder.folder.join(OsStr::from_bytes(path));
            let text = format!(
                "{} was not deleted: it has no backup: {error}",
                at.display()
            );
            self.transfer.monitor.warn(text);
        }
        if backups.is_beside() {
            *last = Some(path.to_vec());
        }
        kept.is_ok()
    }

    /// Returns true if `path` must stay although the source does not have it.
    fn keeps(&self, place: &Place, path: &[u8], kind: FileType) -> bool {
        let at = place.target_folder.folder.join(OsStr::from_bytes(path));
        let backups = self.transfer.table.backups.get();
        if backups.is_some_and(|backups| backups.is_backup(&place.root, path, kind)) {
            return true;
        }
        let path = place.target_folder.at_source(path, &place.first);
        let folder = kind == FileType::Directory;
        if self.is_partial(&path)
            || self.transfer.options().rules.decide_deletion(&path, folder) != Decision::Include
        {
            return true;
        }
        let Some(what) = special(kind).filter(|_| !self.replaces_special()) else {
            return place.deletions.spares(self.transfer.options().max_delete);
        };
        self.transfer
            .monitor
            .warn(format!("{} was not deleted: it is a {what}", at.display()));
        true
    }

    /// Reports to both sides that the limit of deletions was reached.
    pub(super) fn report_limit(&self, place: &Place) {
        let spared = place.deletions.spared.get();
        if spared == 0 {
            return;
        }
        let done = place.deletions.done.get();
        let error = Error::from(Fault::DeleteLimit { done, spared });
        self.report_kept(Vec::new(), &error);
    }

    /// Reports to both sides that the item at `path` could not be removed.
    pub(super) fn report_kept(&self, path: Vec<u8>, error: &Error) {
        let (code, why) = (error.code() as u8, error.text());
        let failure = Failure {
            number: 0,
            path: path.clone(),
            code,
            why: why.clone(),
        };
        let failed = Failed { path, code, why };
        self.transfer.monitor.show(CopyEvent::Failed(failed));
        self.transfer.table.report_kept(failure);
    }

    /// Returns true if `path` is a directory for temporary files.
    fn is_partial(&self, path: &[u8]) -> bool {
        match &self.transfer.temp_place {
            TempPlace::Folder(name) => {
                path.rsplit(|octet| *octet == b'/').next() == Some(name.as_os_str().as_bytes())
            }
            TempPlace::Beside | TempPlace::InPlace => false,
        }
    }
}

fn as_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

/// Returns the item that the target shows at `path`, if there is one.
fn item(root: &mut Root, path: &Path) -> Option<(u64, u64)> {
    let there = root.look(path);
    there.ok().flatten().map(|there| there.inode)
}

fn failed(place: &Place, error: &io::Error, path: &[u8]) -> Error {
    let place = place.target_folder.folder.join(OsStr::from_bytes(path));
    Error::file(FileAction::Remove, &place, error)
}
