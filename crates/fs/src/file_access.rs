//! Part of the file system that a user may access: all of it, or one directory's subtree.
//!
//! [`FileAccess`] opens every path that a peer or a user gives. Below a root the kernel resolves
//! paths with `openat2`. Neither `..` nor a symbolic link leads out of it, even if the tree changes
//! at the same time.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, mkdirat, readlinkat, unlinkat};

use crate::beneath;
use crate::disk::{InputFile, Root};
use crate::meta::Meta;
use crate::reserved_names::ReservedNames;

pub(crate) const FOLDER: OFlags = OFlags::DIRECTORY
    .union(OFlags::RDONLY)
    .union(OFlags::CLOEXEC);

/// Accessible part of the file system.
#[derive(Debug)]
pub struct FileAccess {
    /// Directory that no path can leave, not even through symbolic links and `..`; `None` for the
    /// whole file system.
    root: Option<OwnedFd>,
    /// True if a symbolic link as a source stands for its target.
    pub(crate) follows: bool,
    /// Names that no file may have.
    reserved: ReservedNames,
}

impl FileAccess {
    /// Allows everything that this process may access.
    pub const fn anywhere() -> Self {
        Self {
            root: None,
            follows: false,
            reserved: ReservedNames::none(),
        }
    }

    /// Reserves names, which no operation creates then.
    #[must_use]
    pub fn reserving(mut self, reserved: ReservedNames) -> Self {
        self.reserved = reserved;
        self
    }

    /// Reads the targets of symbolic links instead of the links, as far as they are accessible.
    #[must_use]
    pub const fn following(mut self) -> Self {
        self.follows = true;
        self
    }

    /// Returns true if symbolic links stand for their targets.
    pub const fn follows(&self) -> bool {
        self.follows
    }

    /// Returns the attributes of the file at `path`, following symbolic links.
    pub fn look_through(&self, path: &Path) -> io::Result<Meta> {
        Meta::of_open(self.open(path, OFlags::PATH | OFlags::CLOEXEC)?)
    }

    /// Allows the subtree of `root`.
    pub fn beneath(root: &Path) -> io::Result<Self> {
        let root = rustix::fs::open(root, FOLDER, Mode::empty())?;
        Ok(Self {
            root: Some(root),
            follows: false,
            reserved: ReservedNames::none(),
        })
    }

    /// Allows nothing: the subtree of an empty directory that no process can open.
    pub fn nowhere() -> io::Result<Self> {
        Ok(Self {
            root: Some(Root::nowhere()?.into_folder()),
            follows: false,
            reserved: ReservedNames::none(),
        })
    }

    /// Allows the subtree of the accessible directory `path`.
    pub fn within(&self, path: &Path) -> io::Result<Self> {
        let root = Some(self.open(path, FOLDER)?);
        Ok(Self {
            root,
            follows: self.follows,
            reserved: self.reserved.clone(),
        })
    }

    /// Opens the directory at `path` for writing beneath it.
    pub fn root(&self, path: &Path) -> io::Result<Root> {
        let root = Root::of(self.open(path, FOLDER)?);
        Ok(root.reserving(self.reserved.clone()))
    }

    /// Creates the directory `path`. Returns false if it existed.
    pub fn make_folder(&self, path: &Path) -> io::Result<bool> {
        let Some((folder, name)) = self.parent(path)? else {
            return self.folder(path).map(|_| false);
        };
        match mkdirat(&folder.fd, name, Mode::from_bits_truncate(0o777)) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the empty directory `path`.
    pub fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let Some((folder, name)) = self.parent(path)? else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Ok(unlinkat(&folder.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// Opens the directory at `path` for listing.
    pub fn folder(&self, path: &Path) -> io::Result<Folder> {
        Ok(Folder::of(self.open(path, FOLDER)?))
    }

    /// Opens the directory that contains `path`, and returns it with the path's last name. Returns
    /// `None` for a path that has no last name, such as `.`.
    pub fn parent<'a>(&self, path: &'a Path) -> io::Result<Option<(Folder, &'a OsStr)>> {
        let Some(name) = path.file_name() else {
            return Ok(None);
        };
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let folder = self.folder(parent.unwrap_or_else(|| Path::new(".")))?;
        self.reserved.check(&folder.fd, name)?;
        Ok(Some((folder, name)))
    }

    /// Opens the file at `path` for reading. Fails for a symbolic link, unless links are followed.
    pub fn file(&self, path: &Path) -> io::Result<InputFile> {
        // Opening must not block if a pipe has replaced the file.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let flags = if self.follows {
            flags
        } else {
            flags | OFlags::NOFOLLOW
        };
        Ok(InputFile::of(File::from(self.open(path, flags)?)))
    }

    /// Opens `path` to read a stream, for example a pipe, whose writer may connect later.
    pub fn open_stream_source(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        blocking(File::from(self.open(path, flags | OFlags::NOCTTY)?))
    }

    /// Opens `path` to append a stream, or creates a file there. Fails with `ENXIO` for a pipe
    /// without a reader.
    pub fn open_stream_target(&self, path: &Path) -> io::Result<File> {
        let Some((folder, name)) = self.parent(path)? else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW;
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let mode = Mode::from_bits_truncate(0o666);
        blocking(File::from(rustix::fs::openat(
            &folder.fd, name, flags, mode,
        )?))
    }

    /// Returns the name of the directory at `path`, also for paths like `.` or `..`.
    pub fn name(&self, path: &Path) -> io::Result<OsString> {
        if let Some(name) = path.file_name() {
            return Ok(name.to_owned());
        }
        let full = match self.root {
            None => std::fs::canonicalize(path)?,
            Some(_) => PathBuf::new(),
        };
        full.file_name()
            .map(OsStr::to_owned)
            .ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    pub(crate) fn open(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let Some(root) = &self.root else {
            return Ok(rustix::fs::open(path, flags, Mode::empty())?);
        };
        let relative = path.strip_prefix("/").unwrap_or(path);
        let relative = if relative.as_os_str().is_empty() {
            Path::new(".")
        } else {
            relative
        };
        Ok(beneath::open(root, relative, flags, Mode::empty())?)
    }
}

/// Makes reads and writes of `file` block, which was opened without blocking.
fn blocking(file: File) -> io::Result<File> {
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags.difference(OFlags::NONBLOCK))?;
    Ok(file)
}

/// Open directory that is being listed.
#[derive(Debug)]
pub struct Folder {
    pub(crate) fd: OwnedFd,
    list: Listing,
}

/// Progress of a listing, which uses one more descriptor until it ends.
#[derive(Debug)]
enum Listing {
    Ahead,
    Open(Dir),
    Over,
}

impl Folder {
    /// Returns a directory that is open as `fd`.
    pub(crate) const fn of(fd: OwnedFd) -> Self {
        let list = Listing::Ahead;
        Self { fd, list }
    }

    /// Returns the next names, at most `max`, sorted. Empty after the last name.
    pub fn names(&mut self, max: usize) -> io::Result<Vec<OsString>> {
        if matches!(self.list, Listing::Ahead) {
            self.list = Listing::Open(Dir::read_from(&self.fd)?);
        }
        let mut names = Vec::new();
        while names.len() < max
            && let Listing::Open(list) = &mut self.list
        {
            let Some(item) = list.read() else {
                self.list = Listing::Over;
                break;
            };
            let item = item?;
            let name = item.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name.to_vec()));
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the attributes of `name`; a symbolic link is not followed.
    pub fn look(&self, name: &OsStr) -> io::Result<Meta> {
        Meta::of(&self.fd, name)
    }

    /// Returns the target of the symbolic link `name`.
    pub fn link(&self, name: &OsStr) -> io::Result<OsString> {
        let target = readlinkat(&self.fd, name, Vec::new())?;
        Ok(OsStr::from_bytes(target.as_bytes()).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn paths_outside_the_root_are_refused() {
        let top = std::env::temp_dir().join(format!("lighthaul-access-{}", std::process::id()));
        std::fs::create_dir_all(top.join("root/in")).unwrap();
        std::fs::write(top.join("secret"), "s").unwrap();
        std::fs::write(top.join("root/in/file"), "f").unwrap();
        symlink("../secret", top.join("root/up")).unwrap();
        symlink(&top, top.join("root/out")).unwrap();
        symlink("in", top.join("root/inside")).unwrap();
        let access = FileAccess::beneath(&top.join("root")).unwrap();
        assert!(access.file(Path::new("in/file")).is_ok());
        assert!(access.file(Path::new("/inside/file")).is_ok());
        for path in [
            "up",
            "out/secret",
            "../secret",
            "in/../../secret",
            "out/root/in/file",
        ] {
            assert!(access.file(Path::new(path)).is_err(), "{path}");
        }
        assert!(access.folder(Path::new("out")).is_err());
        let mut folder = access.folder(Path::new("/")).unwrap();
        assert_eq!(folder.names(10).unwrap(), ["in", "inside", "out", "up"]);
        assert_eq!(folder.link(OsStr::new("up")).unwrap(), "../secret");
        std::fs::remove_dir_all(&top).unwrap();
    }
}
