//! Bytes, modes and times that must be on disk before a name appears.

use std::path::Path;
use std::sync::Arc;

use lighthaul_io::fs::disk::OutputFile;

use super::ledger::Pending;
use super::publish::Publisher;
use crate::error::Error;

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

impl Publisher<'_> {
    /// Returns the files to sync before they are renamed, open, since their modes may forbid that later.
    pub(super) fn unsynced(&mut self, files: &[Arc<Pending>]) -> Result<Unsynced, Error> {
        if !self.sync {
            return Ok(Unsynced::Nothing);
        }
        if files.len() > FILES_MAX {
            return Ok(Unsynced::FileSystem);
        }
        let mut open = Vec::new();
        for file in files {
            let opened = self.root.reopen(&file.temporary);
            let opened =
                opened.map_err(|error| self.fault("cannot sync", file.entry.path(), &error))?;
            open.push((Arc::clone(file), opened));
        }
        Ok(Unsynced::Files(open))
    }

    /// Syncs them.
    pub(super) fn sync(&self, unsynced: &Unsynced) -> Result<(), Error> {
        match unsynced {
            Unsynced::Nothing => Ok(()),
            Unsynced::Files(files) => files.iter().try_for_each(|(file, open)| {
                let synced = open.sync();
                synced.map_err(|error| self.fault("cannot sync", file.entry.path(), &error))
            }),
            Unsynced::FileSystem => {
                let synced = self.root.sync();
                synced.map_err(|error| self.fault("cannot sync", Path::new(""), &error))
            }
        }
    }
}
