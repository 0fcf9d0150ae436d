//! The lists of who may call, read again when their files change.
//!
//! A line that makes no sense is logged when it appears, and lets nobody in.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use lighthaul_io::clock::unix_nanos;
use tracing::warn;

use crate::allowed::Allowed;

/// One list.
#[derive(Debug)]
pub(crate) struct Roster {
    path: PathBuf,
    read: Mutex<Option<Read>>,
}

/// What was read, and what the file was like then.
#[derive(Debug)]
struct Read {
    look: Look,
    /// The file had not changed for a while, so that a later change cannot look the same.
    is_settled: bool,
    list: Arc<Allowed>,
}

/// Device, inode, size, and the times of the last change of bytes and of anything, in nanoseconds.
type Look = Option<(u64, u64, u64, i128, i128)>;

impl Roster {
    /// Returns the list in the file at `path`, which is not read yet.
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self {
            path,
            read: Mutex::new(None),
        }
    }

    /// What the file says now; a missing file allows nobody.
    pub(crate) fn list(&self) -> io::Result<Arc<Allowed>> {
        let look = look(&self.path)?;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(read) = read
            .as_ref()
            .filter(|read| read.is_settled && read.look == look)
        {
            return Ok(Arc::clone(&read.list));
        }
        let list = Arc::new(Allowed::load(&self.path)?);
        let before = read.as_ref().map_or(&[][..], |read| &read.list.faults);
        for fault in list
            .faults
            .iter()
            .filter(|fault| !before.contains(fault))
            .take(FAULTS_MAX)
        {
            warn!("{} lets nobody in by {fault}", self.path.display());
        }
        *read = Some(Read {
            look,
            is_settled: is_settled(look),
            list: Arc::clone(&list),
        });
        Ok(list)
    }
}

fn look(path: &Path) -> io::Result<Look> {
    let meta = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        meta => meta?,
    };
    let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    Ok(Some((
        meta.dev(),
        meta.ino(),
        meta.len(),
        nanos(meta.mtime(), meta.mtime_nsec()),
        nanos(meta.ctime(), meta.ctime_nsec()),
    )))
}

/// Whether the last change is so long ago that another would have another time.
fn is_settled(look: Look) -> bool {
    look.is_none_or(|(.., changed)| i128::from(unix_nanos()) - changed > TICK)
}

/// More than the steps in which file systems keep times, in nanoseconds.
const TICK: i128 = 3_000_000_000;
/// Faults that are logged of one reading.
const FAULTS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use lighthaul_io::identity::Fingerprint;

    use super::*;

    #[test]
    fn a_change_counts_at_once_and_what_did_not_change_is_not_read_again() {
        let path = std::env::temp_dir().join(format!("lighthaul-roster-{}", std::process::id()));
        let key: Fingerprint = format!("sha256:{}", "1".repeat(64)).parse().unwrap();
        let roster = Roster::new(path.clone());
        assert!(roster.list().unwrap().rights(key).is_none());
        for (line, is_in) in [("", true), (" ro", true), (" rot=/x", false), ("", true)] {
            fs::write(&path, format!("{key} name{line}\n")).unwrap();
            assert_eq!(
                roster.list().unwrap().rights(key).is_some(),
                is_in,
                "{line}"
            );
        }
        // as if it had been written long ago
        let old = fs::OpenOptions::new().append(true).open(&path).unwrap();
        old.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let list = roster.list().unwrap();
        roster.read.lock().unwrap().as_mut().unwrap().is_settled = true;
        assert!(Arc::ptr_eq(&list, &roster.list().unwrap()));
        fs::remove_file(&path).unwrap();
        assert!(roster.list().unwrap().rights(key).is_none());
    }
}
