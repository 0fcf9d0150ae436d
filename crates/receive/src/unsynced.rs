//! Files that must be synced before they are renamed.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use lighthaul_fs::disk::{OutputFile, Root};

use super::entry_table::PendingFile;

/// Maximum number of files that are synced one by one. If there are more, their file system is synced as a
/// whole.
const FILES_MAX: usize = 8;

/// Files to sync before they are renamed.
pub(super) enum Unsynced {
    /// No sync is needed.
    Nothing,
    /// Sync each of the open files.
    Files(Vec<(Arc<PendingFile>, OutputFile)>),
    /// Sync the file system.
    FileSystem,
}

/// Path below the root that cannot be synced, and the error.
type NotSynced = (PathBuf, io::Error);

impl Unsynced {
    /// Returns the files below `root` to sync before they are renamed. They are open, since their
    /// modes may prevent opening them later.
    pub(super) fn of(root: &mut Root, files: &[Arc<PendingFile>]) -> Result<Self, NotSynced> {
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

    /// Syncs the files.
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
