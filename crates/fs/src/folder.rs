//! Operations on open directories. They work on descriptors, so that no symbolic link placed meanwhile
//! is followed.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;

use lighthaul_io::host::durable::sync_names;
use rustix::fs::{Advice, AtFlags, Mode, OFlags, fadvise, mkdirat, unlinkat};

use crate::beneath;
use crate::file_access::{FOLDER, FileAccess, Folder};

impl FileAccess {
    /// Opens the regular file at `path` for sequential reading. Follows symbolic links that stay
    /// within the allowed tree.
    pub fn read(&self, path: &Path) -> io::Result<File> {
        // Opening a pipe without a writer must not block.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(self.open(path, flags)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        fadvise(&file, 0, None, Advice::Sequential).ok();
        Ok(file)
    }
}

impl Folder {
    /// Opens the subdirectory `name`. The name must not be a symbolic link.
    pub fn enter(&self, name: &OsStr) -> io::Result<Self> {
        let flags = FOLDER | OFlags::NOFOLLOW;
        let fd = beneath::open(&self.fd, name, flags, Mode::empty())?;
        Ok(Self::of(fd))
    }

    /// Creates the directory `name`.
    pub fn make(&self, name: &OsStr) -> io::Result<()> {
        Ok(mkdirat(&self.fd, name, Mode::from_bits_truncate(0o777))?)
    }

    /// Removes the file or link `name`.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Writes the directory's entries to disk.
    pub fn sync(&self) -> io::Result<()> {
        sync_names(&self.fd)
    }

    /// Removes the empty directory `name`.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }
}

/// Reports whether `error` means that a path leads out of its root (`EXDEV`).
pub fn leaves_root(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EXDEV)
}
