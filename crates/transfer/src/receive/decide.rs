//! Decision about an entry, and the report of a dry run.

use lighthaul_files::digest::{self, Digest, Digester};
use lighthaul_files::manifest::{Entry, EntryKind};
use lighthaul_files::options::{Action, Detail, Planned};
use lighthaul_fs::meta::Meta;
use lighthaul_session::error::Error;
use rustix::fs::FileType;

use super::entry_checker::{EntryChecker, Place};
use super::entry_table::Settled;
use crate::message::Listing;
use crate::watch::CopyEvent;

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
            EntryKind::Link(_) if there.kind == FileType::Symlink && before == time => {
                return (Action::Keep, "the same time");
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
        } else if entry.digest.is_some() {
            let theirs = digest_of(place, entry);
            if theirs == entry.digest {
                (Action::Keep, "the same digest")
            } else {
                (Action::Replace, "different digest")
            }
        } else if before == time {
            (Action::Keep, "the same size and time")
        } else {
            (Action::Replace, "different time")
        }
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
            let why = self.explained(entry, there, why);
            self.plan_keeping(action, entry, &why, kept)?;
            return Ok(Settled::Now);
        }
        let changes = there.map_or_else(Vec::new, |there| self.changes(place, entry, there));
        if changes.is_empty() {
            self.plan(action, entry, why)?;
        } else {
            self.plan(Action::Change, entry, &changes.join(", "))?;
        }
        Ok(Settled::Before)
    }

    /// Returns the reason for an action on an entry, with a note if a delta may be sent.
    fn explained(&self, entry: &Entry, there: Option<Meta>, why: &str) -> String {
        match there {
            Some(there) if self.may_be_basis(entry, &there) => {
                format!("{why}; a delta may be sent")
            }
            _ => why.to_owned(),
        }
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
        self.plan_keeping(action, entry, why, 0)
    }

    /// Reports an action on a file of which an earlier copy left `kept` bytes.
    fn plan_keeping(
        &self,
        action: Action,
        entry: &Entry,
        why: &str,
        kept: u64,
    ) -> Result<(), Error> {
        let detail = self.transfer.options().dry_run.unwrap_or(Detail::Brief);
        if action == Action::Keep && detail == Detail::Brief {
            return Ok(());
        }
        // unchanged files are not sent; their sizes are shown in the detailed reports only
        let stays = action == Action::Change && detail == Detail::Brief;
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

/// Returns the digest of the file at the target, for `--checksum`.
fn digest_of(place: &mut Place, entry: &Entry) -> Option<Digest> {
    let file = place.root.read(entry.path()).ok()?;
    let read = |at: u64, buffer: &mut [u8]| file.read_at(buffer, at);
    Digester::compute(digest::DigestKind::Blake3, entry.size(), read).ok()
}
