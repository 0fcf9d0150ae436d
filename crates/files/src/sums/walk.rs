//! Files below a directory, in the order of names, with only the directories of one path in memory.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{io, vec};

use lighthaul_fs::file_access::{FileAccess, Folder};
use rustix::fs::FileType;

/// A file, or a path that could not be read.
pub type Found = Result<PathBuf, (PathBuf, io::Error)>;

/// Walks over files.
#[derive(Debug)]
pub struct Walk {
    /// Open directories of a walk, each with its path and its remaining entries.
    open: Vec<(PathBuf, Folder, vec::IntoIter<OsString>)>,
}

impl Walk {
    /// Begins at the root of `access`.
    pub fn new(access: &FileAccess) -> io::Result<Self> {
        let mut walk = Self { open: Vec::new() };
        walk.enter(PathBuf::new(), access.folder(Path::new(""))?)?;
        Ok(walk)
    }

    fn enter(&mut self, path: PathBuf, mut folder: Folder) -> io::Result<()> {
        let names = folder.names(usize::MAX)?;
        self.open.push((path, folder, names.into_iter()));
        Ok(())
    }

    /// Enters `path`. Returns the error if that fails.
    fn look(&mut self, path: PathBuf, folder: io::Result<Folder>) -> Option<Found> {
        let entered = folder.and_then(|folder| self.enter(path.clone(), folder));
        entered.err().map(|error| Err((path, error)))
    }
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            let (path, folder, names) = self.open.last_mut()?;
            let Some(name) = names.next() else {
                self.open.pop();
                continue;
            };
            let path = path.join::<&OsStr>(&name);
            match folder.look(&name).map(|meta| meta.kind) {
                Ok(FileType::RegularFile) => return Some(Ok(path)),
                Ok(FileType::Directory) => {
                    let folder = folder.enter(&name);
                    if let Some(found) = self.look(path, folder) {
                        return Some(found);
                    }
                }
                Ok(_) => {}
                // it went between being named and being looked at
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Some(Err((path, error))),
            }
        }
    }
}
