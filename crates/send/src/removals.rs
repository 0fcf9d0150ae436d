//! Removal of source files that are in place at the target (`--remove-source-files`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lighthaul_copy::error::Fault;
use lighthaul_copy::message::Failure;
use lighthaul_copy::thread_group::{CHECK_INTERVAL, ThreadGroup};
use lighthaul_files::manifest::{Entry, WINDOW};
use lighthaul_fs::file_access::FileAccess;
use lighthaul_fs::meta::Meta;
use lighthaul_fs::version::Version;
use lighthaul_io::host::wait::pause;
use lighthaul_session::error::{Error, FileAction};

/// Maximum number of files that wait for the receiver. It reports some thousands together, after it has synced
/// them, so that an honest one never reaches this.
const FILES_MAX: usize = 2 * WINDOW as usize;
/// Maximum number of files with several names. They are removed at the end, since each removal changes the
/// version of the other names.
const SHARED_MAX: usize = 1 << 20;

/// File or link that is removed once it is in place at the target.
#[derive(Debug)]
pub(super) struct Removable {
    path: Vec<u8>,
    place: PathBuf,
    version: Version,
    /// True if the file has other names.
    is_shared: bool,
}

/// Source files that wait until they are in place at the target.
#[derive(Debug, Default)]
pub(super) struct Removals(Mutex<RemovalState>);

#[derive(Debug, Default)]
struct RemovalState {
    waiting: BTreeMap<u64, Removable>,
    shared: Vec<(u64, Removable)>,
}

impl Removable {
    /// Creates the file of `entry` at `place`.
    pub(super) fn new(entry: &Entry, place: &Path, meta: &Meta) -> Self {
        Self {
            path: entry.path.clone(),
            place: place.to_owned(),
            version: meta.version(),
            is_shared: meta.names > 1,
        }
    }

    /// Returns true if the file has not changed since it was listed.
    fn is_same(&self, meta: &Meta) -> bool {
        let now = meta.version();
        if self.is_shared {
            return (now.inode, now.look) == (self.version.inode, self.version.look);
        }
        now == self.version
    }

    /// Removes the file. Returns the failure of a file that changed or cannot be removed.
    fn remove(self, number: u64, access: &FileAccess) -> Option<Failure> {
        let removed = access.remove_if(&self.place, |meta| self.is_same(meta));
        let error = match removed {
            Ok(true) => return None,
            Ok(false) => Fault::ChangedSince(self.place).into(),
            Err(error) => Error::file(FileAction::Remove, &self.place, &error),
        };
        Some(Failure {
            number,
            path: self.path,
            code: error.code() as u8,
            why: error.text(),
        })
    }
}

impl Removals {
    fn lock(&self) -> MutexGuard<'_, RemovalState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the file of entry `number`. Waits while too many wait.
    pub(super) fn list(
        &self,
        threads: &ThreadGroup,
        number: u64,
        file: Removable,
    ) -> Result<(), Error> {
        while self.lock().waiting.len() >= FILES_MAX {
            threads.check()?;
            pause(CHECK_INTERVAL);
        }
        self.lock().waiting.insert(number, file);
        Ok(())
    }

    /// Removes the source files of entries that are in place. Returns files that stay although they are in place.
    pub(super) fn confirm(&self, placed: Vec<(u64, bool)>, access: &FileAccess) -> Vec<Failure> {
        let mut ready = Vec::new();
        let mut state = self.lock();
        for (number, placed) in placed {
            let Some(file) = state.waiting.remove(&number).filter(|_| placed) else {
                continue;
            };
            if file.is_shared && state.shared.len() < SHARED_MAX {
                state.shared.push((number, file));
            } else {
                ready.push((number, file));
            }
        }
        drop(state);
        removed(ready, access)
    }

    /// Removes the files with several names.
    pub(super) fn finish(&self, access: &FileAccess) -> Vec<Failure> {
        let shared = std::mem::take(&mut self.lock().shared);
        removed(shared, access)
    }
}

fn removed(files: Vec<(u64, Removable)>, access: &FileAccess) -> Vec<Failure> {
    let files = files.into_iter();
    files
        .filter_map(|(number, file)| file.remove(number, access))
        .collect()
}
