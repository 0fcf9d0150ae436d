//! Removing what lies beneath a root, without following any link on the way.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, unlinkat};
use rustix::io::Errno;

use crate::beneath;
use crate::disk::Root;
use crate::ground::Meta;

/// How deep folders may lie in each other, since each one that is being emptied is open.
const DEPTH_MAX: usize = 400;

impl Root {
    /// Removes the folder `path`, which must be empty.
    pub fn remove_folder(&mut self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(unlinkat(folder, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes `path` and, if it is a folder, all that is in it, but for what `keep` says of a path and of
    /// what is there, and the folders which that is in. What is gone already is no failure. `gone` hears of every
    /// path that was removed.
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
        remove(folder.as_fd(), name, path, &Rest { keep, gone, depth }).map(drop)
    }
}

/// What holds for all that is removed.
#[derive(Clone, Copy)]
struct Rest<'a> {
    keep: &'a dyn Fn(&[u8], FileType) -> bool,
    gone: &'a dyn Fn(&[u8]),
    depth: usize,
}

/// Removes `name` in `folder`, which is at `path` below the root; answers whether it is gone.
fn remove(folder: impl AsFd, name: &OsStr, path: &[u8], rest: &Rest<'_>) -> io::Result<bool> {
    let meta = match Meta::of(&folder, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        meta => meta?,
    };
    if (rest.keep)(path, meta.kind) {
        return Ok(false);
    }
    let flags = if meta.kind.is_dir() {
        if !empty(&folder, name, path, rest)? {
            return Ok(false);
        }
        AtFlags::REMOVEDIR
    } else {
        AtFlags::empty()
    };
    match unlinkat(folder, name, flags) {
        Ok(()) => {
            (rest.gone)(path);
            Ok(true)
        }
        Err(Errno::NOENT) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Removes what is in the folder `name`; answers whether nothing was kept.
fn empty(folder: impl AsFd, name: &OsStr, path: &[u8], rest: &Rest<'_>) -> io::Result<bool> {
    if rest.depth >= DEPTH_MAX {
        return Err(io::Error::other("too many folders lie in each other"));
    }
    let inner = enter(folder, name)?;
    let deeper = Rest {
        depth: rest.depth + 1,
        ..*rest
    };
    let mut gone = true;
    for item in Dir::read_from(&inner)? {
        let item = item?;
        let name = item.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            let path = [path, b"/", name].concat();
            gone &= remove(&inner, OsStr::from_bytes(name), &path, &deeper)?;
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
    fn a_tree_goes_and_what_its_links_point_at_stays() {
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
            "what is kept stays, where it is"
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
