//! Folders that are changed, by their descriptors: no link is followed that somebody might have put there
//! in the meantime.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Advice, AtFlags, Dir, Mode, OFlags, fadvise, mkdirat, unlinkat};

use crate::beneath;
use crate::durable::sync_names;
use crate::ground::{FOLDER, Folder, Ground};

impl Ground {
    /// Opens the file at `path` for reading from front to back, through links that lead nowhere outside.
    pub fn read(&self, path: &Path) -> io::Result<File> {
        // a pipe that nobody writes to must not hold us up
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(self.open(path, flags)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        fadvise(&file, 0, None, Advice::Sequential).ok();
        Ok(file)
    }
}

impl Folder {
    /// The folder `name` in this one, which must not be a link.
    pub fn enter(&self, name: &OsStr) -> io::Result<Self> {
        let flags = FOLDER | OFlags::NOFOLLOW;
        let fd = beneath::open(&self.fd, name, flags, Mode::empty())?;
        let list = Some(Dir::read_from(&fd)?);
        Ok(Self { fd, list })
    }

    /// Makes the folder `name` in it.
    pub fn make(&self, name: &OsStr) -> io::Result<()> {
        Ok(mkdirat(&self.fd, name, Mode::from_bits_truncate(0o777))?)
    }

    /// Removes the file or link `name` in it.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Brings the names in it to disk.
    pub fn sync(&self) -> io::Result<()> {
        sync_names(&self.fd)
    }

    /// Removes the empty folder `name` in it.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }
}

/// Whether `error` says that a path leads out of its root.
pub fn leaves_root(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EXDEV)
}
