//! Removal of source files that are in place at the target (`--remove-source-files`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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

/// Least age of the last change of a file with a fine time, in nanoseconds: more than the tick of a kernel, which
/// is the step of such times.
const FINE_AGE_MIN: i64 = 100_000_000;
/// Least age for other files: the coarsest step of time of a file system, in nanoseconds.
pub(super) const COARSE_AGE_MIN: i64 = 2_000_000_000;

/// Returns the time until each further change of a file gets another time. Until then, a file that is removed may have
/// content that was never read.
fn time_to_settle(version: &Version, now: u64) -> Duration {
    let is_coarse = version.changed % 1_000_000_000 == 0;
    let min = if is_coarse {
        COARSE_AGE_MIN
    } else {
        FINE_AGE_MIN
    };
    let age = i64::try_from(now)
        .unwrap_or(i64::MAX)
        .saturating_sub(version.changed);
    // a time in the future does not come sooner
    let left = min.saturating_sub(age).clamp(0, min);
    Duration::from_nanos(left.unsigned_abs())
}

/// Clock of the file system of the source, which may be that of another host.
#[derive(Debug, Default)]
pub(super) struct FileClock {
    /// Nanoseconds that it was seen ahead of the clock of this host.
    ahead: AtomicI64,
}

impl FileClock {
    /// Returns the time until a file settles, at the time `now` of this host. A change in the future shows how far this
    /// clock is ahead at least.
    pub(super) fn time_to_settle(&self, version: &Version, now: u64) -> Duration {
        let ours = i64::try_from(now).unwrap_or(i64::MAX);
        let ahead = version.changed.saturating_sub(ours);
        let ahead = self.ahead.fetch_max(ahead, Relaxed).max(ahead).max(0);
        time_to_settle(version, now.saturating_add(ahead.unsigned_abs()))
    }
}

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

#[cfg(test)]
mod tests {
    use lighthaul_fs::version::Look;

    use super::*;

    #[test]
    fn file_settles_when_further_changes_get_another_time() {
        let look = Look {
            size: 0,
            seconds: 0,
            nanos: 0,
        };
        let version = |changed| Version {
            inode: (0, 0),
            changed,
            look,
        };
        let left = |changed: i64, now: u64| time_to_settle(&version(changed), now).as_millis();
        let second = 1_000_000_000;
        assert_eq!(left(5 * second + 1_000_000, 5_001_000_000), 100);
        assert_eq!(left(5 * second + 1_000_000, 5_041_000_000), 60);
        assert_eq!(left(5 * second + 1_000_000, 5_200_000_000), 0);
        // a file system with whole seconds
        assert_eq!(left(5 * second, 5_500_000_000), 1500);
        assert_eq!(left(5 * second, 7_000_000_000), 0);
        // the clock of a file server is ahead
        assert_eq!(left(9 * second, 5_000_000_000), 2000);
        assert_eq!(left(i64::MIN, u64::MAX), 0);
        // which the first file shows, so that older ones need no wait
        let clock = FileClock::default();
        let left =
            |changed: i64, now: u64| clock.time_to_settle(&version(changed), now).as_millis();
        let hour = 3600 * second;
        assert_eq!(left(hour + 5 * second, 5_000_000_000), 2000);
        assert_eq!(left(hour + 5 * second, 7_000_000_000), 0);
        assert_eq!(left(hour - 60 * second, 7_000_000_000), 0);
        assert_eq!(left(hour + 6 * second, 7_000_000_000), 1000);
        assert_eq!(left(hour + 9 * second, 7_000_000_000), 2000);
    }
}
