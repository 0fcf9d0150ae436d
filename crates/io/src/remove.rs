//! Removing what lies beneath a root, without following any link on the way.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, ResolveFlags, openat2, unlinkat};
use rustix::io::Errno;

use crate::disk::Root;

impl Root {
    /// Removes the folder `path`, which must be empty.
    pub fn remove_folder(&mut self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(unlinkat(folder, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes `path` and, if it is a folder, all that is in it. What is gone already is no failure.
    pub fn remove_tree(&mut self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        let name = CString::new(name.as_bytes())?;
        remove(folder.as_fd(), &name)
    }
}

fn remove(folder: impl AsFd, name: &CStr) -> io::Result<()> {
    match unlinkat(&folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut stack: Vec<(OwnedFd, CString)> = Vec::new();
    let mut next = Some(name.to_owned());
    while let Some(name) = next.take() {
        let inner = {
            let parent = stack
                .last()
                .map_or_else(|| folder.as_fd(), |(fd, _)| fd.as_fd());
            enter(parent, &name)?
        };
        stack.push((inner, name));
        // deeper first; a folder goes once nothing is left in it
        while let Some((fd, _)) = stack.last() {
            if let Some(deeper) = empty(fd)? {
                next = Some(deeper);
                break;
            }
            let Some((_, name)) = stack.pop() else { break };
            let parent = stack
                .last()
                .map_or_else(|| folder.as_fd(), |(fd, _)| fd.as_fd());
            match unlinkat(parent, name.as_c_str(), AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

fn enter(folder: impl AsFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(folder, name, flags, Mode::empty(), beneath)?)
}

/// Removes the files in a folder; answers a folder that is in it, if there is one.
fn empty(folder: &OwnedFd) -> io::Result<Option<CString>> {
    for item in Dir::read_from(folder)? {
        let item = item?;
        let name = item.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match unlinkat(folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR) => return Ok(Some(name.to_owned())),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
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
        root.remove_tree(Path::new("a")).unwrap();
        root.remove_tree(Path::new("gone")).unwrap();
        assert!(!top.join("root/a").exists());
        root.remove_tree(Path::new("5")).unwrap();
        assert!(top.join("kept/6").exists());
        assert_eq!(fs::read_dir(top.join("root")).unwrap().count(), 0);
        fs::remove_dir_all(&top).unwrap();
    }
}
