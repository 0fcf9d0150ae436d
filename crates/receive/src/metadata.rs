//! Metadata of entries other than content, names, modes and times, and its application at the target.

use std::io;
use std::path::Path;

use lighthaul_copy::monitor::Monitor;
use lighthaul_files::manifest::{Entry, EntryKind};
use lighthaul_files::notes::Notes;
use lighthaul_fs::disk::Root;
use lighthaul_fs::metadata::{Extras, Inode, Keep, NotKept};

/// Writer of metadata at the target. It reports metadata that it cannot preserve.
pub(crate) struct MetadataWriter<'a> {
    keep: Keep,
    notes: Notes,
    monitor: &'a Monitor,
}

impl<'a> MetadataWriter<'a> {
    /// Creates a writer of the metadata in `keep`, and of permissions and modification times.
    pub(crate) fn new(keep: Keep, monitor: &'a Monitor) -> Self {
        let keep = Keep {
            mode: true,
            modified: true,
            ..keep
        };
        Self {
            keep,
            notes: Notes::default(),
            monitor,
        }
    }

    /// Sets all metadata of `entry` on the file at `path`. Does nothing and returns false if that
    /// is only mode and time.
    pub(crate) fn set(&self, root: &mut Root, path: &Path, entry: &Entry) -> io::Result<bool> {
        let Some(extras) = whole(entry) else {
            return Ok(false);
        };
        self.apply(&root.inode(path)?, &extras);
        Ok(true)
    }

    /// Sets the metadata of an existing entry, if it differs.
    pub(crate) fn update(&self, root: &mut Root, entry: &Entry) -> io::Result<()> {
        let Some(extras) = whole(entry) else {
            return Ok(());
        };
        let inode = root.inode(entry.path())?;
        // metadata that cannot be read is reported if it cannot be set, either
        let (there, _) = inode.read(self.keep)?;
        if there != extras {
            self.apply(&inode, &extras);
        }
        Ok(())
    }

    /// Returns the names of the metadata that differ from `entry`.
    pub(crate) fn differences(&self, root: &mut Root, entry: &Entry) -> Vec<&'static str> {
        let extras = whole(entry).unwrap_or_default();
        let inode = root.inode(entry.path());
        let differences = inode.and_then(|inode| inode.differences(&extras, self.keep));
        // metadata that cannot be read is reported when it cannot be set
        differences.unwrap_or_default()
    }

    fn apply(&self, inode: &Inode<'_>, extras: &Extras) {
        self.report(inode.apply(extras, self.keep));
    }

    /// Reports a warning to both sides.
    pub(crate) fn warn(&self, text: String) {
        self.monitor.warn(text);
    }

    /// Reports metadata that was not preserved to both sides, once for each kind.
    pub(crate) fn report(&self, not_kept: Vec<NotKept>) {
        for text in self.notes.unreported(not_kept) {
            self.warn(text);
        }
    }
}

/// Returns all metadata of `entry`, or none if it is only mode and time.
fn whole(entry: &Entry) -> Option<Extras> {
    let extras = entry.extras.as_deref()?;
    let is_link = matches!(entry.kind, EntryKind::Link(_));
    Some(Extras {
        mode: (!is_link).then_some(entry.mode & 0o7777),
        modified: Some((entry.seconds, entry.nanos)),
        ..extras.clone()
    })
}
