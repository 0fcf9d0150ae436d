//! Bytes, modes and times that must be on disk before a name appears.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use lighthaul_io::fs::disk::{OutputFile, Root};

use super::ledger::Pending;

/// More files than this are synced by their file system as a whole.
const FILES_MAX: usize = 8;

/// Files to sync before names appear.
pub(super) enum Unsynced {
    /// Names may appear first.
    Nothing,
    /// Each of these, which are open.
    Files(Vec<(Arc<Pending>, OutputFile)>),
    /// All that was written.
    FileSystem,
}

/// A failed sync: the path below the root, and why.
type NotSynced = (PathBuf, io::Error);

impl Unsynced {
    /// Returns the files below `root` to sync before they are renamed, open, since their modes may forbid that later.
    pub(super) fn of(root: &mut Root, files: &[Arc<Pending>]) -> Result<Self, NotSynced> {
        if files.len() > FILES_MAX {
            return Ok(Self::FileSystem);
        }
        let mut open = Vec::new();
        for file in files {
            let opened = root.reopen(&file.temporary);
            let opened = opened.map_err(|error| (file.entry.path().to_owned(), error))?;
            open.push((Arc::clone(file), opened));
        }
        Ok(Self::Files(open))
    }

    /// Syncs them.
    pub(super) fn sync(&self, root: &Root) -> Result<(), NotSynced> {
        match self {
            Self::Nothing => Ok(()),
            Self::Files(files) => files.iter().try_for_each(|(file, open)| {
                let synced = open.sync();
                synced.map_err(|error| (file.entry.path().to_owned(), error))
            }),
            Self::FileSystem => root.sync().map_err(|error| (PathBuf::new(), error)),
        }
    }
}
