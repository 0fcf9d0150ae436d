//! Removal of files and trees beneath a root. No symbolic link is followed.
//!
//! [`Root::remove_tree`] goes down by descriptors, so that a directory which another process
//! replaces with a link is not followed. The caller decides about each path, and learns each
//! removed one. The first error ends the removal, and what was removed before stays removed.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, unlinkat};
use rustix::io::Errno;

use crate::beneath;
use crate::disk::Root;
use crate::meta::Meta;

/// Limit of nested directories, since each level keeps a descriptor open.
const DEPTH_MAX: usize = 400;

impl Root {
    /// Removes the empty directory `path`.
    pub fn remove_folder(&mut self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(unlinkat(folder, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes `path`; a directory is removed with all its contents.
    ///
    /// Keeps each path for which `keep` returns true (given the path and its type), and the
    /// directories above. Asks about a directory before its contents are removed, and again after
    /// that. A path that another process removes is no error. Calls `gone` with each removed path.
    pub fn remove_tree(
        &mut self,
        path: &Path,
        keep: &dyn Fn(&[u8], FileType) -> bool,
        gone: &dyn Fn(&[u8]),
    ) -> io::Result<()> {
        let path = path.as_os_str().as_bytes();
        if path.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (folder, name) = self.parent(Path::new(OsStr::from_bytes(path)))?;
        let depth = 0;
        remove(folder.as_fd(), name, path, &Removal { keep, gone, depth }).map(drop)
    }
}

/// Parameters of a removal.
#[derive(Clone, Copy)]
struct Removal<'a> {
    keep: &'a dyn Fn(&[u8], FileType) -> bool,
    gone: &'a dyn Fn(&[u8]),
    depth: usize,
}

/// Removes `name` in `folder`; its path below the root is `path`. Returns true if it is gone.
fn remove(folder: impl AsFd, name: &OsStr, path: &[u8], removal: &Removal<'_>) -> io::Result<bool> {
    let meta = match Meta::of(&folder, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        meta => meta?,
    };
    if (removal.keep)(path, meta.kind) {
        return Ok(false);
    }
    let flags = if meta.kind.is_dir() {
        // a limit may be reached by removing its contents
        if !empty(&folder, name, path, removal)? || (removal.keep)(path, meta.kind) {
            return Ok(false);
        }
        AtFlags::REMOVEDIR
    } else {
        AtFlags::empty()
    };
    match unlinkat(folder, name, flags) {
        Ok(()) => {
            (removal.gone)(path);
            Ok(true)
        }
        Err(Errno::NOENT) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Empties the directory `name`. Returns true if nothing was kept.
fn empty(folder: impl AsFd, name: &OsStr, path: &[u8], removal: &Removal<'_>) -> io::Result<bool> {
    if removal.depth >= DEPTH_MAX {
        return Err(io::Error::other(
            "directories are nested more than 400 deep",
        ));
    }
    let inner = enter(folder, name)?;
    let deeper = Removal {
        depth: removal.depth + 1,
        ..*removal
    };
    let mut gone = true;
    let mut inner = Dir::new(inner)?;
    while let Some(item) = inner.read() {
        let item = item?;
        let name = item.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            let path = [path, b"/", name].concat();
            gone &= remove(inner.fd()?, OsStr::from_bytes(name), &path, &deeper)?;
        }
    }
    Ok(gone)
}

fn enter(folder: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(beneath::open(folder, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::fs;

    #[test]
    fn remove_tree_spares_link_targets_and_kept_files() {
        let top = std::env::temp_dir().join(format!("lighthaul-remove-{}", std::process::id()));
        fs::create_dir_all(top.join("root/a/b/c")).unwrap();
        fs::create_dir_all(top.join("root/a/d")).unwrap();
        fs::create_dir_all(top.join("kept")).unwrap();
        for file in [
            "root/a/1",
            "root/a/b/2",
            "root/a/b/c/3",
            "root/a/d/4",
            "root/5",
            "kept/6",
        ] {
            fs::write(top.join(file), file).unwrap();
        }
        std::os::unix::fs::symlink("../../kept", top.join("root/a/link")).unwrap();
        let mut root = Root::open(&top.join("root")).unwrap();
        let logs = |path: &[u8], kind: FileType| !kind.is_dir() && path.ends_with(b"3");
        let gone = RefCell::new(Vec::new());
        let note = |path: &[u8]| gone.borrow_mut().push(path.to_vec());
        root.remove_tree(Path::new("a"), &logs, &note).unwrap();
        assert!(
            top.join("root/a/b/c/3").exists(),
            "a kept file stays in its place"
        );
        assert!(!top.join("root/a/d").exists() && !top.join("root/a/b/2").exists());
        let none = |_: &[u8], _: FileType| false;
        root.remove_tree(Path::new("a"), &none, &note).unwrap();
        root.remove_tree(Path::new("gone"), &none, &note).unwrap();
        assert!(!top.join("root/a").exists());
        root.remove_tree(Path::new("5"), &none, &note).unwrap();
        let mut gone = gone.into_inner();
        gone.sort();
        let all = [
            "5", "a", "a/1", "a/b", "a/b/2", "a/b/c", "a/b/c/3", "a/d", "a/d/4", "a/link",
        ];
        assert!(gone.iter().eq(all.iter().map(|path| path.as_bytes())));
        assert!(top.join("kept/6").exists());
        assert_eq!(fs::read_dir(top.join("root")).unwrap().count(), 0);
        fs::remove_dir_all(&top).unwrap();
    }
}
