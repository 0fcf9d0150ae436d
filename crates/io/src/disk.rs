//! Files: opened beneath a root and nowhere else, written in whole pages past the cache where possible.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, Timespec, Timestamps, chmod, fallocate, fchmod, fstat,
    fstatfs, fsync, mkdirat, renameat, symlinkat, syncfs, unlinkat, utimensat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::beneath;
use crate::block::PAGE;
use crate::clock::unix_nanos;
use crate::ground::Meta;
use crate::mounts::Mounts;
use crate::space::Space;

/// A directory that nothing done through it can leave, symbolic links and `..` included.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
    /// The folder that was used last, since files of one folder come together.
    last: Option<(PathBuf, OwnedFd)>,
    /// File systems below it that were used, those of every handle on it.
    mounts: Mounts,
}

impl Root {
    /// The directory at `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self::of(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// What lies beneath `folder`.
    pub(crate) fn of(folder: OwnedFd) -> Self {
        Self {
            folder,
            last: None,
            mounts: Mounts::default(),
        }
    }

    /// A directory that is empty, and that nobody else can find.
    pub fn nowhere() -> io::Result<Self> {
        let name = format!("lighthaul-{}-{:x}", std::process::id(), unix_nanos());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        let root = Self::open(&path);
        std::fs::remove_dir(&path)?;
        root
    }

    /// Another handle on the same directory.
    pub fn another(&self) -> io::Result<Self> {
        Ok(Self {
            folder: self.folder.try_clone()?,
            last: None,
            mounts: self.mounts.clone(),
        })
    }

    /// Opens the file `path` for reading and writing, or makes it, for this process alone.
    pub fn lock(&mut self, path: &Path) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (folder, name) = self.parent(path)?;
        let mode = Mode::from_bits_truncate(0o600);
        let file = File::from(beneath::open(folder, name, flags, mode)?);
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        Ok(file)
    }

    /// Opens the file `path` for reading; it must not be a link.
    pub fn read(&mut self, path: &Path) -> io::Result<InputFile> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let (folder, name) = self.parent(path)?;
        let file = beneath::open(folder, name, flags, Mode::empty())?;
        Ok(InputFile::of(File::from(file)))
    }

    /// What the file or folder `path` is like, if it is there; of a link, the link itself.
    pub fn look(&mut self, path: &Path) -> io::Result<Option<Meta>> {
        let (folder, name) = self.parent(path)?;
        match Meta::of(folder, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            meta => meta.map(Some),
        }
    }

    /// The names in the folder `path`, those that start with `prefix`.
    pub fn names(&mut self, path: &Path, prefix: &[u8]) -> io::Result<Vec<OsString>> {
        let folder = self.folder_at(path)?;
        let mut names = Vec::new();
        for item in rustix::fs::Dir::read_from(&folder)? {
            let item = item?;
            let name = item.file_name().to_bytes();
            if name.starts_with(prefix) && name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    /// Makes the directory `path` beneath the root, unless it is there already.
    pub fn make_folder(&mut self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        match mkdirat(folder, name, Mode::from_bits_truncate(0o777)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the file `path` anew for reading and writing.
    pub fn create(&mut self, path: &Path) -> io::Result<OutputFile> {
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (folder, name) = self.parent(path)?;
        let file = beneath::open(folder, name, flags, Mode::from_bits_truncate(0o600))?;
        Ok(OutputFile {
            file: File::from(file),
            direct: None,
            refused: false,
            cached: 0,
        })
    }

    /// Opens the file `path`, made before, for reading and writing. One of ours whose mode forbids that gets one that
    /// does not.
    pub fn reopen(&mut self, path: &Path) -> io::Result<OutputFile> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (folder, name) = self.parent(path)?;
        let file = match beneath::open(folder, name, flags, Mode::empty()) {
            Err(Errno::ACCESS) if permit(folder, name, Mode::RUSR | Mode::WUSR).is_ok() => {
                beneath::open(folder, name, flags, Mode::empty())?
            }
            file => file?,
        };
        // a file may be a mount of its own
        self.mounts.note(&file)?;
        Ok(OutputFile {
            file: File::from(file),
            direct: None,
            refused: false,
            cached: 0,
        })
    }

    /// Gives the file or link `from` the name `to`, in place of whatever had it.
    pub fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let name = from
            .file_name()
            .ok_or(io::ErrorKind::InvalidInput)?
            .to_owned();
        if from.parent() == to.parent() {
            let (folder, to) = self.parent(to)?;
            return Ok(renameat(folder, name, folder, to)?);
        }
        let source = self.parent(from)?.0.try_clone()?;
        let (target, to) = self.parent(to)?;
        Ok(renameat(source, name, target, to)?)
    }

    /// Makes a symbolic link `path` that says `target`.
    pub fn make_link(&mut self, path: &Path, target: &OsStr) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(symlinkat(target, folder, name)?)
    }

    /// Removes the file or link `path`.
    pub fn remove(&mut self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(unlinkat(folder, name, AtFlags::empty())?)
    }

    /// Sets the time of the last change of `path`; a link's own, not that of what it points at.
    pub fn set_time(&mut self, path: &Path, seconds: i64, nanos: u32) -> io::Result<()> {
        let times = times(seconds, nanos);
        let (folder, name) = self.parent(path)?;
        Ok(utimensat(folder, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Sets the permissions of the file `path`, which must not be a link.
    pub fn set_mode(&mut self, path: &Path, mode: u32) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        let file = itself(folder, name)?;
        Ok(chmod(
            magic(&file),
            Mode::from_bits_truncate(mode & 0o7777),
        )?)
    }

    /// Lets us do all in the folder `path` that belongs to us, whatever its mode forbids.
    pub fn open_up(&mut self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        permit(folder, name, Mode::RWXU)
    }

    /// Sets the permissions of the folder `path`.
    pub fn set_folder_mode(&mut self, path: &Path, mode: u32) -> io::Result<()> {
        let folder = self.folder_at(path)?;
        self.mounts.note(&folder)?;
        Ok(fchmod(folder, Mode::from_bits_truncate(mode & 0o7777))?)
    }

    /// Brings everything written to the root's file system to disk, and to every other one below the root that
    /// was used through this handle or another one on the same root: a tree may span mounts.
    pub fn sync(&self) -> io::Result<()> {
        syncfs(&self.folder)?;
        self.mounts.sync()
    }

    fn folder_at(&mut self, path: &Path) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(beneath::open(&self.folder, path, flags, Mode::empty())?)
    }

    /// The folder that `path` is in, and the name it has there; the root is in itself.
    pub(crate) fn parent<'a>(&mut self, path: &'a Path) -> io::Result<(&OwnedFd, &'a OsStr)> {
        if path.as_os_str().is_empty() {
            return Ok((&self.folder, OsStr::new(".")));
        }
        let Some(Component::Normal(name)) = path.components().next_back() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        if folder.as_os_str().is_empty() {
            return Ok((&self.folder, name));
        }
        if self.last.as_ref().is_none_or(|(last, _)| last != folder) {
            let opened = self.folder_at(folder)?;
            self.mounts.note(&opened)?;
            self.last = Some((folder.to_owned(), opened));
        }
        let folder = self
            .last
            .as_ref()
            .map_or(&self.folder, |(_, folder)| folder);
        Ok((folder, name))
    }
}

/// Allows the owner of what is called `name` in `folder` what `rights` say.
fn permit(folder: &OwnedFd, name: &OsStr, rights: Mode) -> io::Result<()> {
    // nothing is forbidden to root
    if geteuid().is_root() {
        return Ok(());
    }
    let file = itself(folder, name)?;
    let mode = Mode::from_raw_mode(fstat(&file)?.st_mode);
    if mode.contains(rights) {
        return Ok(());
    }
    Ok(chmod(magic(&file), mode | rights)?)
}

/// What is called `name` in `folder`, whatever its mode forbids.
fn itself(folder: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(beneath::open(folder, name, flags, Mode::empty())?)
}

/// A path to what is open, and to nothing else.
fn magic(file: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

/// A file that is being written, in any order.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    /// The same file past the page cache, once it has paid to open it.
    direct: Option<File>,
    refused: bool,
    /// Bytes that went to the page cache since the kernel was last told to write them.
    cached: usize,
}

impl OutputFile {
    /// The kernel is told to write whenever this much is in the page cache, so that the sync at the
    /// end is short.
    const CACHED_MAX: usize = 8 << 20;

    /// From this many bytes on, a write goes past the page cache.
    const DIRECT_MIN: usize = 256 << 10;

    /// Reserves room for `len` bytes, so that a full disk shows now; where the file system can't, or its files are in memory, it
    /// only sets the length.
    pub fn allocate(&self, len: u64) -> io::Result<()> {
        if fstatfs(&self.file)?.f_type == libc::TMPFS_MAGIC {
            // memory is made when it is written: to make all of it at once would keep the writer from its work
            let there = self.file.metadata()?.blocks() * 512;
            let space = Space::of(&self.file)?;
            let more = len.saturating_sub(there);
            space.check(more, 0).map_err(|_| Errno::NOSPC)?;
            return self.file.set_len(len);
        }
        match fallocate(&self.file, FallocateFlags::empty(), 0, len) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP) => self.file.set_len(len),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes `bytes` at `offset`: the whole pages of a large aligned piece directly.
    pub fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let aligned =
            bytes.as_ptr().addr().is_multiple_of(PAGE) && offset.is_multiple_of(PAGE as u64);
        let whole = bytes.len() / PAGE * PAGE;
        if !aligned || whole < Self::DIRECT_MIN || self.refused {
            return self.write_cached(bytes, offset);
        }
        let (pages, rest) = bytes.split_at(whole);
        if self.write_direct(pages, offset).is_err() {
            self.refused = true;
            self.write_cached(pages, offset)?;
        }
        self.write_cached(rest, offset + whole as u64)
    }

    fn write_cached(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)?;
        self.cached += bytes.len();
        if self.cached >= Self::CACHED_MAX {
            self.cached = 0;
            let fd = self.file.as_raw_fd();
            // SAFETY: the descriptor is open; a failure only means that nothing starts early.
            unsafe { libc::sync_file_range(fd, 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
        }
        Ok(())
    }

    /// Reads what was written.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    /// Returns device and number of the file's inode.
    pub fn inode(&self) -> io::Result<(u64, u64)> {
        let meta = self.file.metadata()?;
        Ok((meta.dev(), meta.ino()))
    }

    /// Brings the bytes to disk, and the file's mode and time with them.
    pub fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.file)?)
    }

    /// Sets the file's permissions.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(fchmod(&self.file, Mode::from_bits_truncate(mode & 0o7777))?)
    }

    /// Sets the time of its last change.
    pub fn set_time(&self, seconds: i64, nanos: u32) -> io::Result<()> {
        let times = times(seconds, nanos);
        Ok(rustix::fs::futimens(&self.file, &times)?)
    }

    fn write_direct(&mut self, pages: &[u8], offset: u64) -> io::Result<()> {
        if self.direct.is_none() {
            let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::CLOEXEC;
            let path = magic(&self.file);
            self.direct = Some(File::from(rustix::fs::open(path, flags, Mode::empty())?));
        }
        let direct = self.direct.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        direct.write_all_at(pages, offset)
    }
}

impl AsFd for OutputFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A file that is being read.
#[derive(Debug)]
pub struct InputFile {
    file: File,
}

/// Version of a file: tells the file from another one that has taken its name, and from itself before any change, also
/// from one whose modification time was set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Device and number of the inode.
    pub inode: (u64, u64),
    /// Last status change, nanoseconds since 1970.
    pub changed: i64,
    /// Size and modification time.
    pub look: Look,
}

impl Version {
    /// Returns a number that differs for nearly all versions, for where millions of versions are kept.
    pub fn mark(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.inode, self.changed).hash(&mut hasher);
        let look = self.look;
        (look.size, look.seconds, look.nanos).hash(&mut hasher);
        hasher.finish()
    }
}

/// What a file was like when somebody looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Bytes.
    pub size: u64,
    /// Last change, seconds since 1970.
    pub seconds: i64,
    /// And nanoseconds.
    pub nanos: u32,
}

impl InputFile {
    /// Opens `path` for reading from front to back.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self::of(File::from(file)))
    }

    /// Reads `file` from front to back.
    pub(crate) fn of(file: File) -> Self {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Sequential).ok();
        Self { file }
    }

    /// Fills `buffer` from `offset`; answers how many bytes the file still had.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.file.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Drops what the page cache has of the file, so that reading means the disk.
    pub fn forget(&self) -> io::Result<()> {
        Ok(rustix::fs::fadvise(
            &self.file,
            0,
            None,
            rustix::fs::Advice::DontNeed,
        )?)
    }

    /// Returns the version that the file has now.
    pub fn version(&self) -> io::Result<Version> {
        let meta = self.file.metadata()?;
        Ok(Version {
            inode: (meta.dev(), meta.ino()),
            changed: nanos(meta.ctime(), meta.ctime_nsec()),
            look: Look {
                size: meta.len(),
                seconds: meta.mtime(),
                nanos: u32::try_from(meta.mtime_nsec()).unwrap_or(0),
            },
        })
    }
}

impl AsFd for InputFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Nanoseconds since 1970 of a time that the kernel gives in two parts; times that an `i64` does not hold differ still.
pub(crate) const fn nanos(seconds: i64, nanos: i64) -> i64 {
    seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos)
}

/// One moment for both times that a file keeps.
fn times(seconds: i64, nanos: u32) -> Timestamps {
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: nanos.into(),
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}
