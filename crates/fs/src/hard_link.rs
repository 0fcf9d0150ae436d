//! Hard links beneath a root.

use std::io;
use std::path::Path;

use rustix::fs::{AtFlags, linkat, statat};
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
        match linkat(&source, from, target, to, AtFlags::empty()) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => {
                let old = statat(target, to, AtFlags::SYMLINK_NOFOLLOW)?;
                let new = statat(&source, from, AtFlags::SYMLINK_NOFOLLOW)?;
                if (old.st_dev, old.st_ino) == (new.st_dev, new.st_ino) {
                    Ok(())
                } else {
                    Err(Errno::EXIST.into())
                }
            }
            Err(error) => Err(error.into()),
        }
    }
}
