//! Hard links beneath a root.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, RenameFlags, linkat, renameat, renameat_with, statat};
use rustix::io::Errno;

use crate::disk::Root;

impl Root {
    /// Creates `to` as a hard link of the file or symbolic link `from`. Succeeds if it is one
    /// already.
    ///
    /// Fails with `EEXIST` if `to` is another file: to replace it, link to a temporary name and
    /// rename that. Fails if the file system has no hard links, or no more for this file; then copy
    /// the file.
    pub fn hard_link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (source, from) = self.parent(from)?;
        let source = source.try_clone()?;
        let (target, to) = self.parent(to)?;
        link((&source, from), (target, to))
    }

    /// Creates `to` as a hard link of `from` beneath the root `source`, as [`Root::hard_link`].
    pub fn hard_link_from(&mut self, source: &mut Self, from: &Path, to: &Path) -> io::Result<()> {
        let (source, from) = source.parent(from)?;
        let (target, to) = self.parent(to)?;
        link((source, from), (target, to))
    }

    /// Moves `from` beneath the root `source` to `to`, and replaces an existing `to`.
    pub fn rename_from(&mut self, source: &mut Self, from: &Path, to: &Path) -> io::Result<()> {
        let (source, from) = source.parent(from)?;
        let (target, to) = self.parent(to)?;
        Ok(renameat(source, from, target, to)?)
    }

    /// Moves `from` beneath the root `source` to `to`. Fails with `EEXIST` if that exists.
    pub fn rename_new_from(&mut self, source: &mut Self, from: &Path, to: &Path) -> io::Result<()> {
        let (source, from) = source.parent(from)?;
        let (target, to) = self.parent(to)?;
        let flags = RenameFlags::NOREPLACE;
        Ok(renameat_with(source, from, target, to, flags)?)
    }
}

fn link((source, from): (&OwnedFd, &OsStr), (target, to): (&OwnedFd, &OsStr)) -> io::Result<()> {
    match linkat(source, from, target, to, AtFlags::empty()) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => {
            let old = statat(target, to, AtFlags::SYMLINK_NOFOLLOW)?;
            let new = statat(source, from, AtFlags::SYMLINK_NOFOLLOW)?;
            if (old.st_dev, old.st_ino) == (new.st_dev, new.st_ino) {
                Ok(())
            } else {
                Err(Errno::EXIST.into())
            }
        }
        Err(error) => Err(error.into()),
    }
}
