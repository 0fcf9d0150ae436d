//! File systems that a tree spans. One syncfs(2) syncs only one of them, without those mounted
//! below it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags, fstat, syncfs};

use crate::proc_path::magic;

/// Set of the file systems that were written to, by device number. Clones share the set. Its size
/// is bounded by the mounts of this host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mounts {
    used: Arc<Mutex<BTreeMap<u64, OwnedFd>>>,
}

impl Mounts {
    /// Adds the file system of an open file. The next sync reports any write error after this call.
    pub(crate) fn note(&self, open: &OwnedFd) -> io::Result<()> {
        let device = fstat(open)?.st_dev;
        let mut used = self.lock();
        if let Entry::Vacant(place) = used.entry(device) {
            // a copy of the descriptor would keep a lock on the file
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let again = rustix::fs::open(magic(open), flags, Mode::empty());
            let again = again.map_err(Into::into);
            place.insert(again.or_else(|_: io::Error| open.as_fd().try_clone_to_owned())?);
        }
        Ok(())
    }

    /// Writes all changes of the file systems to disk. Syncs each one, and returns the first error.
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
