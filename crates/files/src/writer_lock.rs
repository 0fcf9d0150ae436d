//! Lock file of a writer in the target directory. While it is locked, its writer is alive.
//!
//! Process numbers identify a writer only within one start of a host and one PID namespace. They do
//! not help after the restart of a host or container, but locks do.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use lighthaul_fs::disk::Root;

use crate::temp_names::{PREFIX, Writer, lock_file_of};

/// Lock of one writer. It is released when this value is dropped.
#[derive(Debug)]
pub struct WriterLock {
    root: Root,
    name: PathBuf,
    _locked: File,
    /// True if the lock file remains after the drop, as a mark for the next copy.
    stays: bool,
}

/// Content of the lock file in a directory that was created for an unfinished copy.
const MADE: &[u8] = b"made\n";

impl WriterLock {
    /// Locks the temporary files of `writer` below `root`. Returns none if no file can be created
    /// or locked. In a directory that was `made` for the copy, the file remains if the copy fails, so
    /// that the next copy knows.
    pub fn acquire(mut root: Root, writer: &Writer, made: bool) -> Option<Self> {
        let name = writer.lock_file();
        let locked = root.lock(&name).ok()?;
        // on a full disk the file is only a lock
        let stays = made && locked.write_all_at(MADE, 0).is_ok();
        Some(Self {
            root,
            name,
            _locked: locked,
            stays,
        })
    }

    /// Removes the lock file, and the lock files of earlier failed copies, since the directory is complete.
    pub fn release(mut self) {
        if std::mem::take(&mut self.stays) {
            WriterLocks::default().clear(&mut self.root);
        }
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        if !self.stays {
            self.root.remove(&self.name).ok();
        }
    }
}

/// Lock files of other writers.
#[derive(Debug, Default)]
pub struct WriterLocks {
    /// Lock files by name. They are locked by this process if their writer is dead.
    known: BTreeMap<PathBuf, Option<File>>,
}

impl WriterLocks {
    /// Returns true if `name` is a temporary file whose writer locked a file in `root` and has died.
    pub fn is_orphan(&mut self, root: &mut Root, name: &OsStr) -> bool {
        let Some(lock_file) = lock_file_of(name) else {
            return false;
        };
        let known = self.known.entry(lock_file);
        let locked = known.or_insert_with_key(|lock_file| lock(root, lock_file));
        locked.is_some()
    }

    /// Removes the lock files of dead writers, after their temporary files were handled.
    pub fn clear(&mut self, root: &mut Root) {
        for name in lock_files(root) {
            let known = self.known.entry(name);
            known.or_insert_with_key(|lock_file| lock(root, lock_file));
        }
        for (name, locked) in std::mem::take(&mut self.known) {
            if locked.is_some() {
                root.remove(&name).ok();
            }
        }
    }
}

/// Returns true if `root` was created for a copy that has not finished.
pub fn is_unfinished(root: &mut Root) -> bool {
    lock_files(root).iter().any(|name| {
        // other users may create files in a directory like /tmp
        let is_ours = root
            .look(name)
            .is_ok_and(|meta| meta.is_some_and(|meta| meta.is_ours()));
        let mut says = [0; MADE.len()];
        let read = is_ours
            && root
                .read(name)
                .is_ok_and(|lock_file| lock_file.read_at(&mut says, 0).is_ok());
        read && says == MADE
    })
}

/// Returns the names of all lock files in `root`.
fn lock_files(root: &mut Root) -> Vec<PathBuf> {
    let names = root.names(Path::new(""), PREFIX);
    let names = names.unwrap_or_default().into_iter().map(PathBuf::from);
    names
        .filter(|name| name.extension() == Some(OsStr::new("lock")))
        .collect()
}

/// Locks the file, if it exists and no process holds the lock.
fn lock(root: &mut Root, lock_file: &Path) -> Option<File> {
    root.look(lock_file).ok()??;
    root.lock(lock_file).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_ended_writers_are_orphans() {
        let folder = std::env::temp_dir().join(format!("locks-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut root = Root::open(&folder).unwrap();
        let writer = Writer::new(1);
        let left = writer.temporary(Path::new("x"), 7).into_os_string();
        assert!(
            !WriterLocks::default().is_orphan(&mut root, &left),
            "no writer locked it"
        );
        let lock_file = WriterLock::acquire(root.another().unwrap(), &writer, false).unwrap();
        let mut locks = WriterLocks::default();
        assert!(!locks.is_orphan(&mut root, &left), "its writer is alive");
        locks.clear(&mut root);
        drop(lock_file);
        assert!(root.names(Path::new(""), b"").unwrap().is_empty());
        // a crash leaves the file without the lock
        std::fs::write(folder.join(writer.lock_file()), "").unwrap();
        let mut locks = WriterLocks::default();
        assert!(locks.is_orphan(&mut root, &left));
        locks.clear(&mut root);
        assert!(root.names(Path::new(""), b"").unwrap().is_empty());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn folder_that_was_created_for_a_copy_is_marked_until_a_copy_succeeds() {
        let folder = std::env::temp_dir().join(format!("locks-made-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut root = Root::open(&folder).unwrap();
        let acquire = |number, made| {
            let root = Root::open(&folder).unwrap();
            WriterLock::acquire(root, &Writer::new(number), made).unwrap()
        };
        let plain = acquire(1, false);
        assert!(!is_unfinished(&mut root));
        drop(plain);
        let first = acquire(2, true);
        assert!(is_unfinished(&mut root), "the copy runs");
        drop(first);
        assert!(is_unfinished(&mut root), "the copy failed");
        let second = acquire(3, true);
        assert!(is_unfinished(&mut root));
        second.release();
        assert!(!is_unfinished(&mut root));
        assert!(root.names(Path::new(""), b"").unwrap().is_empty());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
