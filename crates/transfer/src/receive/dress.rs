//! What is kept of an entry besides bytes, names, modes and times, given to what stands for it here.

use std::io;
use std::path::Path;

use lighthaul_io::fs::disk::Root;
use lighthaul_io::fs::metadata::{Extras, Inode, Keep, NotKept};

use crate::board::Board;
use crate::manifest::{Entry, Kind};
use crate::notes::Notes;

/// Gives files, folders and links what is kept of their sources, and tells what it cannot.
pub(crate) struct Wardrobe<'a> {
    keep: Keep,
    notes: Notes,
    board: &'a Board,
}

impl<'a> Wardrobe<'a> {
    /// One that keeps permissions and the time of the last change in any case.
    pub(crate) fn new(keep: Keep, board: &'a Board) -> Self {
        let keep = Keep {
            mode: true,
            modified: true,
            ..keep
        };
        Self {
            keep,
            notes: Notes::default(),
            board,
        }
    }

    /// Gives what is at `path` all that is kept of `entry`; answers false, and does nothing, if that is
    /// no more than a mode and a time.
    pub(crate) fn dress(&self, root: &mut Root, path: &Path, entry: &Entry) -> io::Result<bool> {
        let Some(extras) = whole(entry) else {
            return Ok(false);
        };
        self.apply(&root.inode(path)?, &extras);
        Ok(true)
    }

    /// Does the same for what was in place before, if it differs.
    pub(crate) fn mend(&self, root: &mut Root, entry: &Entry) -> io::Result<()> {
        let Some(extras) = whole(entry) else {
            return Ok(());
        };
        let inode = root.inode(entry.path())?;
        // what cannot be read is told if it cannot be set, either
        let (there, _) = inode.read(self.keep)?;
        if there != extras {
            self.apply(&inode, &extras);
        }
        Ok(())
    }

    /// What of all that is kept of `entry` is not so of what is there, in words.
    pub(crate) fn differences(&self, root: &mut Root, entry: &Entry) -> Vec<&'static str> {
        let extras = whole(entry).unwrap_or_default();
        let inode = root.inode(entry.path());
        let differences = inode.and_then(|inode| inode.differences(&extras, self.keep));
        // what cannot be looked at is told when it cannot be set
        differences.unwrap_or_default()
    }

    fn apply(&self, inode: &Inode<'_>, extras: &Extras) {
        self.tell(inode.apply(extras, self.keep));
    }

    /// Tells both sides what cannot be kept.
    pub(crate) fn warn(&self, text: String) {
        self.board.tell(text);
    }

    /// Tells both sides, once, of what is not kept.
    pub(crate) fn tell(&self, not_kept: Vec<NotKept>) {
        for text in self.notes.news(not_kept) {
            self.warn(text);
        }
    }
}

/// All that is kept of `entry`; nothing if that is no more than every entry says.
fn whole(entry: &Entry) -> Option<Extras> {
    let extras = entry.extras.as_deref()?;
    let is_link = matches!(entry.kind, Kind::Link(_));
    Some(Extras {
        mode: (!is_link).then_some(entry.mode & 0o7777),
        modified: Some((entry.seconds, entry.nanos)),
        ..extras.clone()
    })
}
