//! File systems that a tree spans: syncfs(2) syncs one of them, and knows nothing of those mounted below it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{fstat, syncfs};

/// File systems that were written to, by their device. A clone is the same set. It has no bound of its own: there
/// are no more of them than mounts on this host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mounts {
    used: Arc<Mutex<BTreeMap<u64, OwnedFd>>>,
}

impl Mounts {
    /// Remembers the file system of what is open. An error that it has from then on is found by the next sync.
    pub(crate) fn note(&self, open: &OwnedFd) -> io::Result<()> {
        let device = fstat(open)?.st_dev;
        let mut used = self.lock();
        if let Entry::Vacant(place) = used.entry(device) {
            place.insert(open.as_fd().try_clone_to_owned()?);
        }
        Ok(())
    }

    /// Brings everything written to these file systems to disk; each is tried, whatever another one says.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let used = self.lock();
        let mut all = Ok(());
        for mount in used.values() {
            let synced = syncfs(mount);
            all = all.and(synced);
        }
        Ok(all?)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, OwnedFd>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
