//! Backups of files and links before they are replaced or deleted.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use lighthaul_files::options::Backup;
use lighthaul_files::temp_names::Writer;
use lighthaul_fs::disk::Root;
use lighthaul_fs::file_access::FileAccess;
use rustix::fs::FileType;

/// Numbers of temporary names, beyond those of entries.
const NUMBERS: u64 = 1 << 62;

/// Place of backups.
#[derive(Debug)]
pub(crate) struct Backups {
    suffix: OsString,
    /// Directory for them; none for the directory of each file.
    folder: Option<BackupFolder>,
    writer: Writer,
    count: AtomicU64,
}

/// Directory for backups, which is created when the first one is made.
#[derive(Debug)]
struct BackupFolder {
    access: Arc<FileAccess>,
    path: PathBuf,
    /// Path below the target, if it is there.
    inside: Option<Vec<u8>>,
    root: Mutex<Option<Root>>,
}

impl Backups {
    /// Creates the place of backups for a target directory in `access`.
    pub(crate) fn new(
        backup: &Backup,
        (access, target): (Arc<FileAccess>, &Path),
        writer: Writer,
    ) -> Self {
        let folder = backup.folder.as_ref().map(|folder| {
            let folder = Path::new(OsStr::from_bytes(folder));
            BackupFolder {
                access,
                path: target.join(folder),
                inside: inside(folder),
                root: Mutex::default(),
            }
        });
        Self {
            suffix: OsStr::from_bytes(&backup.suffix).to_owned(),
            folder,
            writer,
            count: AtomicU64::new(NUMBERS),
        }
    }

    /// Returns true if backups are in the directory of each file.
    pub(crate) const fn is_beside(&self) -> bool {
        self.folder.is_none()
    }

    /// Returns true if `path` at the target is a backup, which must not be deleted.
    pub(crate) fn is_backup(&self, path: &[u8], kind: FileType) -> bool {
        match &self.folder {
            Some(folder) => folder.inside.as_deref() == Some(path),
            None => kind != FileType::Directory && path.ends_with(self.suffix.as_bytes()),
        }
    }

    /// Keeps the file or link at `path` of the target, if there is one. It also stays at its path,
    /// so that a replaced file is never missing.
    pub(crate) fn keep(&self, root: &mut Root, path: &Path) -> io::Result<()> {
        let there = root.look(path)?;
        if there.is_none_or(|there| there.kind == FileType::Directory) {
            return Ok(());
        }
        let mut name = path.as_os_str().to_owned();
        name.push(&self.suffix);
        let name = PathBuf::from(name);
        if self.folder.is_none()
            && let Some(old) = root.look(&name)?
            && !matches!(
                old.kind,
                FileType::RegularFile | FileType::Symlink | FileType::Directory
            )
        {
            let text = "its backup would replace a device, socket or other special file";
            return Err(io::Error::other(text));
        }
        let temporary = self
            .writer
            .temporary(&name, self.count.fetch_add(1, Relaxed));
        let Some(folder) = &self.folder else {
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
        let mut above: Vec<&Path> = name.ancestors().skip(1).collect();
        above.retain(|path| !path.as_os_str().is_empty());
        above
            .iter()
            .rev()
            .try_for_each(|path| to.make_folder(path))?;
        match to.hard_link_from(root, path, &temporary) {
            Ok(()) => publish(to, &temporary, &name),
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let text = "the backup directory is on another file system";
                Err(io::Error::other(text))
            }
            Err(_) => to.rename_from(root, path, &name),
        }
    }
}

impl BackupFolder {
    /// Creates the directory and those above, and opens it.
    fn open(&self) -> io::Result<Root> {
        let mut above: Vec<&Path> = self.path.ancestors().collect();
        above.retain(|path| !path.as_os_str().is_empty() && path.file_name().is_some());
        for path in above.into_iter().rev() {
            if self.access.folder(path).is_err() {
                self.access.make_folder(path)?;
            }
        }
        self.access.root(&self.path)
    }
}

/// Gives a backup its name. An older one is replaced.
fn publish(root: &mut Root, temporary: &Path, name: &Path) -> io::Result<()> {
    let renamed = root.rename(temporary, name);
    // rename leaves it if it failed, or if both names are the same file
    root.remove(temporary).ok();
    renamed
}

/// Returns the path of a relative directory below the target, if it stays there.
fn inside(folder: &Path) -> Option<Vec<u8>> {
    let mut names = Vec::new();
    for part in folder.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => names.push(name.as_bytes()),
            Component::RootDir | Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(names.join(&b'/'))
}
