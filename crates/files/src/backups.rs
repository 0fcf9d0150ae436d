//! Backups of files and links before they are replaced or deleted.
//!
//! [`Backups::keep`] makes the backup: a hard link gets a temporary name and is renamed, so that
//! the original stays in place until its replacement. File systems without hard links rename the
//! original instead. Backups lie beside the files, or in one directory with the same tree below.
//!
//! A backup replaces an older one, but no listed file of the same copy and no special file.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use lighthaul_fs::disk::Root;
use lighthaul_fs::file_access::FileAccess;
use rustix::fs::FileType;

use crate::options::Backup;
use crate::temp_names::Writer;

/// First number for temporary names of backups, beyond the numbers of entries.
const NUMBERS: u64 = 1 << 62;
/// Maximum number of listed paths with the suffix of backups that are remembered. A backup may replace others,
/// as in rsync.
const LISTED_MAX: usize = 1 << 20;

/// Place of backups.
#[derive(Debug)]
pub struct Backups {
    suffix: OsString,
    /// Directory for backups; none for the directory of each file.
    folder: Option<BackupFolder>,
    /// Listed paths with the suffix of backups, which no backup may replace.
    listed: Mutex<BTreeSet<Vec<u8>>>,
    writer: Writer,
    count: AtomicU64,
}

/// Directory for backups, which is created when the first one is made.
#[derive(Debug)]
struct BackupFolder {
    access: Arc<FileAccess>,
    path: PathBuf,
    /// Directory of the target whose contents get backups: the root, or the copied directory.
    top: PathBuf,
    /// Device and inode number, once the directory exists.
    inode: OnceLock<(u64, u64)>,
    root: Mutex<Option<Root>>,
}

impl Backups {
    /// Creates the place of backups for the directory `top`; `root` is the path of the root that `access` has.
    pub fn new(
        backup: &Backup,
        (access, root, top): (&Arc<FileAccess>, &Path, &Path),
        writer: Writer,
    ) -> Self {
        let folder = backup.folder.as_ref();
        let open = |folder: &Vec<u8>| {
            let path = root.join(top).join(OsStr::from_bytes(folder));
            BackupFolder::new(Arc::clone(access), path, top.to_owned())
        };
        Self {
            suffix: OsStr::from_bytes(&backup.suffix).to_owned(),
            folder: folder.map(open),
            listed: Mutex::default(),
            writer,
            count: AtomicU64::new(NUMBERS),
        }
    }

    /// Returns true if backups are in the directory of each file.
    pub const fn is_beside(&self) -> bool {
        self.folder.is_none()
    }

    /// Records a listed path, which no backup may replace from now on.
    pub fn list(&self, path: &[u8]) {
        if self.is_beside() && path.ends_with(self.suffix.as_bytes()) {
            let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
            if listed.len() < LISTED_MAX {
                listed.insert(path.to_vec());
            }
        }
    }

    /// Returns true if the item at `path` is a backup or the directory of backups, which must not be deleted.
    pub fn is_backup(&self, root: &Root, path: &[u8], kind: FileType) -> bool {
        let Some(folder) = &self.folder else {
            return kind != FileType::Directory && path.ends_with(self.suffix.as_bytes());
        };
        let Some(inode) = folder.inode.get() else {
            return false;
        };
        let there = || root.another()?.look(Path::new(OsStr::from_bytes(path)));
        // what cannot be looked at stays
        kind == FileType::Directory
            && there().map_or(true, |there| {
                there.is_some_and(|there| there.inode == *inode)
            })
    }

    /// Keeps a backup of the file or link at `path` of the target, if it exists. The file or link also stays at its
    /// path, so that a replaced file is never missing.
    pub fn keep(&self, root: &mut Root, path: &Path) -> io::Result<()> {
        let there = root.look(path)?;
        if there.is_none_or(|there| there.kind == FileType::Directory) {
            return Ok(());
        }
        let number = self.count.fetch_add(1, Relaxed);
        let Some(folder) = &self.folder else {
            let name = self.name(path);
            self.check(root, &name)?;
            let temporary = self.writer.temporary(&name, number);
            return match root.hard_link(path, &temporary) {
                Ok(()) => publish(root, &temporary, &name),
                // a file system without hard links
                Err(_) => root.rename(path, &name),
            };
        };
        let mut open = folder.root.lock().unwrap_or_else(PoisonError::into_inner);
        let to = match &mut *open {
            Some(to) => to,
            closed => closed.insert(folder.open()?),
        };
        let name = self.name(path.strip_prefix(&folder.top).unwrap_or(path));
        let temporary = self.writer.temporary(&name, number);
        let mut above: Vec<&Path> = name.ancestors().skip(1).collect();
        above.retain(|path| !path.as_os_str().is_empty());
        above
            .iter()
            .rev()
            .try_for_each(|path| to.make_folder(path))?;
        self.check(to, &name)?;
        match to.hard_link_from(root, path, &temporary) {
            Ok(()) => publish(to, &temporary, &name),
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let text = "the backup directory is on another file system";
                Err(io::Error::other(text))
            }
            Err(_) => to.rename_from(root, path, &name),
        }
    }

    /// Returns the name of the backup of `path`.
    fn name(&self, path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(&self.suffix);
        name.into()
    }

    /// Fails if a backup called `name` would replace a listed path or a special file.
    fn check(&self, root: &mut Root, name: &Path) -> io::Result<()> {
        let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if listed.contains(name.as_os_str().as_bytes()) {
            let text = "its backup would replace a file of the same copy (another --suffix or --backup-dir helps)";
            return Err(io::Error::other(text));
        }
        let old = root.look(name)?.map(|old| old.kind);
        if old.is_none_or(|kind| {
            matches!(
                kind,
                FileType::RegularFile | FileType::Symlink | FileType::Directory
            )
        }) {
            return Ok(());
        }
        let text = "its backup would replace a device, socket or other special file";
        Err(io::Error::other(text))
    }
}

impl BackupFolder {
    fn new(access: Arc<FileAccess>, path: PathBuf, top: PathBuf) -> Self {
        let there = access.look_through(&path);
        Self {
            inode: there.map_or_else(|_| OnceLock::new(), |there| there.inode.into()),
            access,
            path,
            top,
            root: Mutex::default(),
        }
    }

    /// Creates the directory and its parents, and opens it.
    fn open(&self) -> io::Result<Root> {
        let access = &self.access;
        let mut above: Vec<&Path> = self.path.ancestors().collect();
        above.retain(|path| !path.as_os_str().is_empty() && path.file_name().is_some());
        for path in above.into_iter().rev() {
            if access.folder(path).is_err() {
                access.make_folder(path)?;
            }
        }
        let mut root = access.root(&self.path)?;
        if let Some(there) = root.look(Path::new(""))? {
            self.inode.get_or_init(|| there.inode);
        }
        Ok(root)
    }
}

/// Gives a backup its name. An older one is replaced.
fn publish(root: &mut Root, temporary: &Path, name: &Path) -> io::Result<()> {
    let renamed = root.rename(temporary, name);
    // rename leaves it if it failed, or if both names are the same file
    root.remove(temporary).ok();
    renamed
}
