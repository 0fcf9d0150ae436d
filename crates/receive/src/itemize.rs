//! Differences of entries that a copy reports to the user.

use lighthaul_copy::thread_group::CHECK_INTERVAL;
use lighthaul_files::item::{Changed, Item, ItemKind, Update};
use lighthaul_files::manifest::{Entry, EntryKind, Linked};
use lighthaul_files::options::{Action, Planned};
use lighthaul_fs::meta::Meta;
use lighthaul_io::host::wait::pause;
use lighthaul_session::error::Error;
use rustix::fs::FileType;
use rustix::process::geteuid;

use super::decide::link_differs;
use super::entry_checker::{EntryChecker, Place};
use super::entry_table::EntryTable;
use super::transfer::Transfer;

impl EntryChecker<'_> {
    /// Records the differences of an entry, to report them when it is in place.
    pub(super) fn itemize(
        &self,
        place: &mut Place,
        number: u64,
        entry: &Entry,
        (there, action): (Option<Meta>, Action),
    ) -> Result<(), Error> {
        if !self.transfer.options().itemize {
            return Ok(());
        }
        self.await_reports()?;
        let item = self.item(place, entry, (there, action));
        if item.update != Update::Attributes || item.changed.is_any() {
            let action = if action == Action::Keep {
                Action::Change
            } else {
                action
            };
            self.report(number, entry, (action, item));
        }
        Ok(())
    }

    /// Waits while the sender reads no reports, so that it gets no more of its list checked.
    pub(super) fn await_reports(&self) -> Result<(), Error> {
        self.await_table(EntryTable::reports_wait)
    }

    /// Waits while `is_busy` returns true.
    pub(super) fn await_table(&self, is_busy: fn(&EntryTable) -> bool) -> Result<(), Error> {
        let Transfer { table, threads, .. } = self.transfer;
        while is_busy(table) {
            let _pause = threads.work.pause();
            threads.check()?;
            pause(CHECK_INTERVAL);
        }
        Ok(())
    }

    fn report(&self, number: u64, entry: &Entry, (action, item): (Action, Item)) {
        let mut path = entry.path.clone();
        if path.is_empty() {
            path.push(b'.');
        }
        let planned = Planned {
            action,
            path,
            bytes: entry.size(),
            kept: 0,
            why: String::new(),
            item: Some(item),
        };
        self.transfer.table.itemize(number, planned);
    }

    /// Returns the differences between an entry and the target.
    pub(super) fn item(
        &self,
        place: &mut Place,
        entry: &Entry,
        (there, action): (Option<Meta>, Action),
    ) -> Item {
        let options = self.transfer.options();
        let (kind, type_) = match entry.kind {
            EntryKind::File(_) => (ItemKind::File, FileType::RegularFile),
            EntryKind::Folder | EntryKind::FolderEnd => (ItemKind::Folder, FileType::Directory),
            EntryKind::Link(_) => (ItemKind::Link, FileType::Symlink),
        };
        let there = there.filter(|there| there.kind == type_);
        let follows = options.hard_links && matches!(entry.linked, Linked::To(_));
        let differs = there.is_some() && link_differs(&mut place.root, entry);
        let update = match (action, kind) {
            (Action::Replace, ItemKind::Link) if there.is_some() && !differs => Update::Attributes,
            (Action::Keep | Action::Change, _) => Update::Attributes,
            (_, ItemKind::File | ItemKind::Link) if follows => Update::HardLink,
            (_, ItemKind::File) => Update::Data,
            (_, ItemKind::Folder | ItemKind::Link) => Update::Local,
        };
        let mut changed = Changed::default();
        if let Some(there) = there {
            let is_file = kind == ItemKind::File;
            let newer = options.update && action == Action::Keep && is_file;
            let is_newer = newer && (there.seconds, there.nanos) > (entry.seconds, entry.nanos);
            if !is_newer {
                changed = self.changed(place, entry, there);
                changed.value = match kind {
                    ItemKind::File => options.checksum && action == Action::Replace,
                    ItemKind::Link => differs,
                    ItemKind::Folder => false,
                };
            }
        }
        Item {
            update,
            kind,
            new: there.is_none(),
            changed,
        }
    }

    fn changed(&self, place: &mut Place, entry: &Entry, there: Meta) -> Changed {
        let is_file = matches!(entry.kind, EntryKind::File(_));
        let is_link = matches!(entry.kind, EntryKind::Link(_));
        let is_root = geteuid().is_root();
        let owner = entry.extras.as_ref().and_then(|extras| extras.owner);
        let extra = if entry.extras.is_some() {
            self.metadata.differences(&mut place.root, entry)
        } else {
            Vec::new()
        };
        Changed {
            value: false,
            size: is_file && there.size != entry.size(),
            time: (there.seconds, there.nanos) != (entry.seconds, entry.nanos),
            mode: !is_link && there.mode != entry.mode & 0o7777,
            user: is_root && owner.is_some_and(|(user, _)| user != there.user),
            group: is_root && owner.is_some_and(|(_, group)| group != there.group),
            accessed: extra.contains(&"time of access"),
            attributes: extra.contains(&"attributes"),
        }
    }
}
