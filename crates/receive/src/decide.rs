//! Decision about an entry, and the report of a dry run.
//!
//! `decide` compares an entry with the item at the target, and the first difference is the reason:
//!
//! ```text
//! missing, other type --> newer target (--update) --> size --> digest, or time without --checksum
//! ```
//!
//! Copies and dry runs use the same decision. In a dry run, `report_planned` reports it and changes
//! nothing. Modes and owners never cause a transfer; they are changes of metadata.

use std::os::unix::ffi::OsStrExt;

use lighthaul_copy::message::Listing;
use lighthaul_copy::watch::CopyEvent;
use lighthaul_files::content_sum::ContentSum;
use lighthaul_files::item::Item;
use lighthaul_files::manifest::{Entry, EntryKind, Linked};
use lighthaul_files::options::{Action, Detail, Planned};
use lighthaul_fs::disk::Root;
use lighthaul_fs::meta::Meta;
use lighthaul_session::error::Error;
use rustix::fs::FileType;

use super::entry_checker::{EntryChecker, Place};
use super::entry_table::Settled;

impl EntryChecker<'_> {
    /// Returns the action for an entry, and the reason.
    pub(super) fn decide(
        &self,
        place: &mut Place,
        entry: &Entry,
        there: Option<Meta>,
    ) -> (Action, &'static str) {
        let Some(there) = there else {
            return (Action::Create, "it does not exist");
        };
        let time = (entry.seconds, entry.nanos);
        let before = (there.seconds, there.nanos);
        match &entry.kind {
            EntryKind::Folder if there.kind != FileType::Directory => {
                return (Action::Replace, "it is not a directory");
            }
            EntryKind::Folder | EntryKind::FolderEnd => return (Action::Keep, "it exists"),
            EntryKind::Link(_)
                if there.kind == FileType::Symlink
                    && before == time
                    && !link_differs(&mut place.root, entry) =>
            {
                return (Action::Keep, "the same target and time");
            }
            EntryKind::Link(_) => return (Action::Replace, "not the same link"),
            EntryKind::File(_) if there.kind != FileType::RegularFile => {
                return (Action::Replace, "it is not a file");
            }
            EntryKind::File(_) => {}
        }
        if self.transfer.options().update && before > time {
            (Action::Keep, "the target is newer")
        } else if there.size != entry.size() {
            (Action::Replace, "different size")
        } else if let Some(sum) = entry.digest {
            if has_content(&mut place.root, entry, sum) {
                (Action::Keep, sum.equal())
            } else {
                (Action::Replace, sum.different())
            }
        } else if self.transfer.options().checksum {
            // the source could not read the file, so a request for it fails
            (Action::Replace, "the source has no digest of it")
        } else if before == time {
            (Action::Keep, "the same size and time")
        } else {
            (Action::Replace, "different time")
        }
    }

    /// Handles an entry in a dry run.
    pub(super) fn report_planned(
        &self,
        place: &mut Place,
        number: u64,
        entry: &Entry,
        (there, action, why): (Option<Meta>, Action, &str),
    ) -> Result<(), Error> {
        let is_link = self.transfer.options().hard_links && matches!(entry.linked, Linked::To(_));
        let is_new = matches!(entry.kind, EntryKind::File(_)) && action != Action::Keep;
        let kept = if is_new && !is_link {
            place.rejection = self.fit(place, entry).err();
            self.kept_bytes(place, number, entry)
        } else {
            0
        };
        let settled = self.report_plan(place, entry, (there, action, why), kept)?;
        self.transfer.table.settle(number, entry, Ok(settled));
        Ok(())
    }

    /// Reports the action of a dry run on `entry`, of which `kept` bytes exist at the target. If
    /// the entry stays, reports the changes of its metadata. Returns whether the entry stays.
    pub(super) fn report_plan(
        &self,
        place: &mut Place,
        entry: &Entry,
        (there, action, why): (Option<Meta>, Action, &str),
        kept: u64,
    ) -> Result<Settled, Error> {
        if action != Action::Keep {
            let item = self.item(place, entry, (there, action));
            let is_delta = there.is_some_and(|there| self.may_be_basis(entry, &there));
            let note = if is_delta {
                "; a delta may be sent"
            } else {
                ""
            };
            let why = format!("{why}{note}");
            self.plan_item(action, entry, &why, (kept, Some(item)))?;
            return Ok(Settled::Now);
        }
        let changes = there.map_or_else(Vec::new, |there| self.changes(place, entry, there));
        if changes.is_empty() {
            self.plan(action, entry, why)?;
        } else {
            let item = self.item(place, entry, (there, action));
            let why = changes.join(", ");
            self.plan_item(Action::Change, entry, &why, (0, Some(item)))?;
        }
        Ok(Settled::Before)
    }

    /// Returns the metadata that a copy would change on an existing entry.
    fn changes(&self, place: &mut Place, entry: &Entry, there: Meta) -> Vec<&'static str> {
        let is_folder = matches!(entry.kind, EntryKind::Folder | EntryKind::FolderEnd);
        if !is_folder && self.keeps_newer(Some(there), entry) {
            return Vec::new();
        }
        if entry.extras.is_some() {
            return self.metadata.differences(&mut place.root, entry);
        }
        let is_link = matches!(entry.kind, EntryKind::Link(_));
        let mode = !is_link && there.mode != entry.mode & 0o7777;
        let time = !is_link && (there.seconds, there.nanos) != (entry.seconds, entry.nanos);
        let changes = [(mode, "mode"), (time, "time")].into_iter();
        changes
            .filter_map(|(differs, what)| differs.then_some(what))
            .collect()
    }

    /// Reports an action of a dry run.
    pub(super) fn plan(&self, action: Action, entry: &Entry, why: &str) -> Result<(), Error> {
        self.plan_item(action, entry, why, (0, None))
    }

    /// Reports an action of a dry run, with the bytes that an earlier copy left and the
    /// differences.
    fn plan_item(
        &self,
        action: Action,
        entry: &Entry,
        why: &str,
        (kept, item): (u64, Option<Item>),
    ) -> Result<(), Error> {
        let detail = self.transfer.options().dry_run.unwrap_or(Detail::Brief);
        if action == Action::Keep && detail == Detail::Brief {
            return Ok(());
        }
        // unchanged files are not sent; their sizes are shown in the detailed reports only
        let stays = action == Action::Change && detail == Detail::Brief || action == Action::Link;
        let planned = Planned {
            action,
            path: if entry.is_top() {
                b".".to_vec()
            } else {
                entry.path.clone()
            },
            bytes: if stays { 0 } else { entry.size() - kept },
            kept,
            why: why.to_owned(),
            item: item.filter(|_| self.transfer.options().itemize),
        };
        self.transfer
            .monitor
            .show(CopyEvent::Planned(planned.clone()));
        let listing = Listing::Planned(vec![planned]);
        let threads = &self.transfer.threads;
        threads.send(&self.transfer.stream, listing.encode())
    }

    /// Returns true if the target is newer and must be kept.
    pub(super) fn keeps_newer(&self, there: Option<Meta>, entry: &Entry) -> bool {
        let newer = |there: Meta| (there.seconds, there.nanos) > (entry.seconds, entry.nanos);
        self.transfer.options().update && there.is_some_and(newer)
    }
}

/// Returns true if the link at the target points elsewhere than `entry`, or cannot be read. The
/// target of such a link is unknown, so it is replaced.
pub(super) fn link_differs(root: &mut Root, entry: &Entry) -> bool {
    let EntryKind::Link(target) = &entry.kind else {
        return false;
    };
    let there = root.link_target(entry.path());
    !there.is_ok_and(|there| there.as_bytes() == target.as_slice())
}

/// Returns true if the file at the path of `entry` has its size and this checksum.
pub(super) fn has_content(root: &mut Root, entry: &Entry, sum: ContentSum) -> bool {
    let Ok(file) = root.read(entry.path()) else {
        return false;
    };
    let read = |at: u64, buffer: &mut [u8]| file.read_at(buffer, at);
    matches!(sum.same_kind_of(entry.size(), read), Ok(found) if found == sum)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::{env, fs, process};

    use super::*;

    #[test]
    fn link_that_cannot_be_read_differs() {
        let folder = env::temp_dir().join(format!("lighthaul-decide-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        symlink("there", folder.join("link")).unwrap();
        fs::write(folder.join("file"), "").unwrap();
        let mut root = Root::open(&folder).unwrap();
        let mut differs = |name: &str, target: &[u8]| {
            let entry = Entry {
                kind: EntryKind::Link(target.to_vec()),
                ..Entry::bare(name.into())
            };
            link_differs(&mut root, &entry)
        };
        assert!(!differs("link", b"there"));
        assert!(differs("link", b"elsewhere"));
        // replaced or removed after it was found
        assert!(differs("file", b"there"));
        assert!(differs("none", b"there"));
        fs::remove_dir_all(folder).unwrap();
    }
}
