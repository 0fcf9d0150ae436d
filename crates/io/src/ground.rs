//! The part of the file system that somebody may use: all of it, or what lies beneath one folder.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, mkdirat, readlinkat, statat, unlinkat};
use rustix::process::geteuid;

use crate::beneath;
use crate::disk::{InputFile, Look, Root, Version, nanos};

pub(crate) const FOLDER: OFlags = OFlags::DIRECTORY
    .union(OFlags::RDONLY)
    .union(OFlags::CLOEXEC);

/// A part of the file system that somebody may use.
#[derive(Debug)]
pub struct Ground {
    /// The folder that nothing leaves, symbolic links and `..` included.
    root: Option<OwnedFd>,
}

/// What an entry of a folder is like.
#[derive(Clone, Copy, Debug)]
pub struct Meta {
    /// File, folder, link or something else.
    pub kind: FileType,
    /// Bytes, if it is a file.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// The number of its owner.
    pub user: u32,
    /// The number of its group.
    pub group: u32,
    /// Last change, seconds since 1970.
    pub seconds: i64,
    /// And nanoseconds.
    pub nanos: u32,
    /// Last status change, nanoseconds since 1970.
    pub changed: i64,
    /// Bytes that it takes on its disk.
    pub allocated: u64,
    /// Device and number of its inode.
    pub inode: (u64, u64),
    /// How many names that has.
    pub names: u64,
}

impl Meta {
    /// Whether it belongs to whoever this process runs as.
    pub fn is_ours(&self) -> bool {
        self.user == geteuid().as_raw()
    }

    /// Returns the version of the file.
    pub const fn version(&self) -> Version {
        Version {
            inode: self.inode,
            changed: self.changed,
            look: Look {
                size: self.size,
                seconds: self.seconds,
                nanos: self.nanos,
            },
        }
    }

    /// What `name` in `folder` is like; of a link, the link itself.
    pub(crate) fn of(folder: impl AsFd, name: &OsStr) -> io::Result<Self> {
        let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Self {
            kind: FileType::from_raw_mode(stat.st_mode),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mode: stat.st_mode & 0o7777,
            user: stat.st_uid,
            group: stat.st_gid,
            seconds: stat.st_mtime,
            nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
            changed: nanos(stat.st_ctime, stat.st_ctime_nsec.cast_signed()),
            allocated: u64::try_from(stat.st_blocks).unwrap_or(0) * 512,
            inode: (stat.st_dev, stat.st_ino),
            names: stat.st_nlink,
        })
    }
}

impl Ground {
    /// Everything that this process may use.
    pub const fn anywhere() -> Self {
        Self { root: None }
    }

    /// What lies beneath `root`.
    pub fn beneath(root: &Path) -> io::Result<Self> {
        let root = rustix::fs::open(root, FOLDER, Mode::empty())?;
        Ok(Self { root: Some(root) })
    }

    /// What lies beneath the folder at `path` on this ground.
    pub fn within(&self, path: &Path) -> io::Result<Self> {
        let root = Some(self.open(path, FOLDER)?);
        Ok(Self { root })
    }

    /// Opens the folder at `path` for writing beneath it.
    pub fn root(&self, path: &Path) -> io::Result<Root> {
        Ok(Root::of(self.open(path, FOLDER)?))
    }

    /// Makes the folder `path`, unless it is there already; answers whether it has made it.
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

    /// Removes the folder `path`, which must be empty.
    pub fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let Some((folder, name)) = self.parent(path)? else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Ok(unlinkat(&folder.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// Opens the folder at `path` for listing.
    pub fn folder(&self, path: &Path) -> io::Result<Folder> {
        let fd = self.open(path, FOLDER)?;
        let list = Some(Dir::read_from(&fd)?);
        Ok(Folder { fd, list })
    }

    /// Opens the folder that `path` is in, and tells what `path` is called there. A path without a
    /// name of its own, such as `.`, has none.
    pub fn parent<'a>(&self, path: &'a Path) -> io::Result<Option<(Folder, &'a OsStr)>> {
        let Some(name) = path.file_name() else {
            return Ok(None);
        };
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        Ok(Some((
            self.folder(parent.unwrap_or_else(|| Path::new(".")))?,
            name,
        )))
    }

    /// Opens the file at `path`, which must not be a link.
    pub fn file(&self, path: &Path) -> io::Result<InputFile> {
        // nobody waits for the other end of a pipe that took a file's place
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(InputFile::of(File::from(self.open(path, flags)?)))
    }

    /// Opens what is at `path` to read a stream from it, say a pipe, whose writer may still have to come.
    pub fn spring(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        blocking(File::from(self.open(path, flags)?))
    }

    /// Opens what is at `path` to write a stream behind what it has, or makes a file there. A pipe that nobody
    /// reads is refused with `ENXIO`.
    pub fn mouth(&self, path: &Path) -> io::Result<File> {
        let Some((folder, name)) = self.parent(path)? else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW;
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let mode = Mode::from_bits_truncate(0o666);
        blocking(File::from(rustix::fs::openat(
            &folder.fd, name, flags, mode,
        )?))
    }

    /// The name of the folder at `path`, however it is written.
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

/// What was opened without waiting, and waits from now on.
fn blocking(file: File) -> io::Result<File> {
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags.difference(OFlags::NONBLOCK))?;
    Ok(file)
}

/// A folder that is being listed.
#[derive(Debug)]
pub struct Folder {
    pub(crate) fd: OwnedFd,
    pub(crate) list: Option<Dir>,
}

impl Folder {
    /// The next names, at most `max`, in order; none when there are no more.
    pub fn names(&mut self, max: usize) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        while names.len() < max {
            let Some(item) = self.list.as_mut().and_then(Dir::read) else {
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

    /// Has no more names, say since reading them failed.
    pub fn exhaust(&mut self) {
        self.list = None;
    }

    /// What `name` is like; of a link, the link itself.
    pub fn look(&self, name: &OsStr) -> io::Result<Meta> {
        Meta::of(&self.fd, name)
    }

    /// What the link `name` says.
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
    fn what_lies_outside_is_not_found_through_links_or_dots() {
        let top = std::env::temp_dir().join(format!("lighthaul-ground-{}", std::process::id()));
        std::fs::create_dir_all(top.join("root/in")).unwrap();
        std::fs::write(top.join("secret"), "s").unwrap();
        std::fs::write(top.join("root/in/file"), "f").unwrap();
        symlink("../secret", top.join("root/up")).unwrap();
        symlink(&top, top.join("root/out")).unwrap();
        symlink("in", top.join("root/inside")).unwrap();
        let ground = Ground::beneath(&top.join("root")).unwrap();
        assert!(ground.file(Path::new("in/file")).is_ok());
        assert!(ground.file(Path::new("/inside/file")).is_ok());
        for path in [
            "up",
            "out/secret",
            "../secret",
            "in/../../secret",
            "out/root/in/file",
        ] {
            assert!(ground.file(Path::new(path)).is_err(), "{path}");
        }
        assert!(ground.folder(Path::new("out")).is_err());
        let mut folder = ground.folder(Path::new("/")).unwrap();
        assert_eq!(folder.names(10).unwrap(), ["in", "inside", "out", "up"]);
        assert_eq!(folder.link(OsStr::new("up")).unwrap(), "../secret");
        std::fs::remove_dir_all(&top).unwrap();
    }
}
