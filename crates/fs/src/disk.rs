//! Files beneath a root directory, written with direct I/O where possible.
//!
//! - [`Root`]: directory that no operation leaves
//! - [`OutputFile`]: file written at any offset; [`InputFile`]: file read at any offset

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use lighthaul_io::host::clock::unix_nanos;
use lighthaul_io::host::durable::sync_names;
use lighthaul_io::host::file_calls::start_writeback;
use lighthaul_io::store::block::PAGE;
use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, Timespec, Timestamps, chmod, fallocate, fchmod,
    fcntl_getfl, fcntl_setfl, fstat, fstatfs, fsync, mkdirat, readlinkat, renameat, symlinkat,
    syncfs, unlinkat, utimensat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::beneath;
use crate::meta::Meta;
use crate::mounts::Mounts;
use crate::proc_path::magic;
use crate::reserved_names::ReservedNames;
use crate::space::Space;
use crate::version::{Look, Version, nanos};

/// Directory that no operation on a path beneath it can leave, not even through `..`. No operation passes a symbolic
/// link on the way to the last name of a path.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
    /// Parent directory used last, kept open because consecutive paths often share it.
    last: Option<(PathBuf, OwnedFd)>,
    /// File systems used below the root, shared by all handles on the root.
    mounts: Mounts,
    /// Names that no file may have.
    reserved: ReservedNames,
}

impl Root {
    /// Opens the directory at `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self::of(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Creates a handle on the open directory `folder`.
    pub(crate) fn of(folder: OwnedFd) -> Self {
        Self {
            folder,
            last: None,
            mounts: Mounts::default(),
            reserved: ReservedNames::none(),
        }
    }

    /// Reserves names, which no operation creates then.
    pub(crate) fn reserving(mut self, reserved: ReservedNames) -> Self {
        self.reserved = reserved;
        self
    }

    /// Creates an empty directory that is removed at once, so that no other process can open it.
    pub fn nowhere() -> io::Result<Self> {
        let name = format!("lighthaul-{}-{:x}", std::process::id(), unix_nanos());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        let root = Self::open(&path);
        std::fs::remove_dir(&path)?;
        root
    }

    /// Returns the open directory.
    pub(crate) fn into_folder(self) -> OwnedFd {
        self.folder
    }

    /// Returns a second handle on the same directory.
    pub fn another(&self) -> io::Result<Self> {
        Ok(Self {
            folder: self.folder.try_clone()?,
            last: None,
            mounts: self.mounts.clone(),
            reserved: self.reserved.clone(),
        })
    }

    /// Opens or creates the file `path` for reading and writing, and locks it for this process.
    /// Fails with `WouldBlock` if another process holds the lock.
    ///
    /// The file has its name when it is locked. A holder that removes the file before it releases
    /// the lock therefore leaves no lock on a file without a name.
    pub fn lock(&mut self, path: &Path) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (folder, name) = self.parent(path)?;
        let mode = Mode::from_bits_truncate(0o600);
        for _ in 0..LOCK_ATTEMPTS_MAX {
            let file = File::from(beneath::open(folder, name, flags, mode)?);
            rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
            let ours = fstat(&file)?;
            let there = Meta::of(folder, name);
            if there.is_ok_and(|there| there.inode == (ours.st_dev, ours.st_ino)) {
                return Ok(file);
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Opens the file `path` for reading. The path must not be a symbolic link.
    pub fn read(&mut self, path: &Path) -> io::Result<InputFile> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let (folder, name) = self.parent(path)?;
        let file = beneath::open(folder, name, flags, Mode::empty())?;
        Ok(InputFile::of(File::from(file)))
    }

    /// Returns the attributes of `path`, or `None` if it does not exist. For a symbolic link,
    /// returns those of the link itself.
    pub fn look(&mut self, path: &Path) -> io::Result<Option<Meta>> {
        let (folder, name) = self.parent(path)?;
        match Meta::of(folder, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            meta => meta.map(Some),
        }
    }

    /// Returns the device number of the file system on which `path` is, or would be.
    pub fn device(&mut self, path: &Path) -> io::Result<u64> {
        let (folder, _) = self.parent(path)?;
        Ok(fstat(folder)?.st_dev)
    }

    /// Returns the free space for `path`, which need not exist.
    pub fn space(&mut self, path: &Path) -> io::Result<Space> {
        let (folder, _) = self.parent(path)?;
        Space::of(folder)
    }

    /// Returns the names in the directory `path` that start with `prefix`.
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

    /// Creates the directory `path`, unless it exists.
    pub fn make_folder(&mut self, path: &Path) -> io::Result<()> {
        self.make_folder_for(path, 0o777)
    }

    /// Creates the directory `path`, unless it exists. It is open to those only that the permission bits `mode` and the
    /// process's mask admit, and to its owner.
    pub fn make_folder_for(&mut self, path: &Path, mode: u32) -> io::Result<()> {
        let mode = Mode::from_bits_truncate(mode & 0o777) | Mode::RWXU;
        let (folder, name) = self.parent(path)?;
        match mkdirat(folder, name, mode) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the file `path` for reading and writing, with mode 0600. Fails if the path exists.
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

    /// Opens the existing file `path` for reading and writing. Adds read and write permission for
    /// the owner if the mode forbids it.
    pub fn reopen(&mut self, path: &Path) -> io::Result<OutputFile> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (folder, name) = self.parent(path)?;
        let file = match beneath::open(folder, name, flags, Mode::empty()) {
            Err(Errno::ACCESS) if permit(folder, name, Mode::RUSR | Mode::WUSR).is_ok() => {
                beneath::open(folder, name, flags, Mode::empty())?
            }
            file => file?,
        };
        // A file can be a mount point.
        self.mounts.note(&file)?;
        Ok(OutputFile {
            file: File::from(file),
            direct: None,
            refused: false,
            cached: 0,
        })
    }

    /// Opens the existing file `path` for reading, and for writing at its end, if its mode permits that.
    pub fn open_to_append(&mut self, path: &Path) -> io::Result<OutputFile> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let (folder, name) = self.parent(path)?;
        let file = File::from(beneath::open(folder, name, flags, Mode::empty())?);
        let mut output = OutputFile {
            file,
            direct: None,
            refused: false,
            cached: 0,
        };
        output.append_only()?;
        Ok(output)
    }

    /// Renames the file or link `from` to `to`, and replaces an existing `to`.
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

    /// Creates a symbolic link `path` to `target`.
    pub fn make_link(&mut self, path: &Path, target: &OsStr) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(symlinkat(target, folder, name)?)
    }

    /// Returns the target of the symbolic link `path`.
    pub fn link_target(&mut self, path: &Path) -> io::Result<OsString> {
        let (folder, name) = self.parent(path)?;
        let target = readlinkat(folder, name, Vec::new())?;
        Ok(OsStr::from_bytes(target.as_bytes()).to_owned())
    }

    /// Removes the file or link `path`.
    pub fn remove(&mut self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(unlinkat(folder, name, AtFlags::empty())?)
    }

    /// Sets the access and modification times of `path`; a symbolic link is not followed.
    pub fn set_time(&mut self, path: &Path, seconds: i64, nanos: u32) -> io::Result<()> {
        let times = times(seconds, nanos);
        let (folder, name) = self.parent(path)?;
        Ok(utimensat(folder, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Sets the permission bits of the file `path`, which must not be a symbolic link.
    pub fn set_mode(&mut self, path: &Path, mode: u32) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        let file = itself(folder, name)?;
        Ok(chmod(
            magic(&file),
            Mode::from_bits_truncate(mode & 0o7777),
        )?)
    }

    /// Gives the owner all permissions on the directory `path`, which must belong to this user.
    pub fn open_up(&mut self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        permit(folder, name, Mode::RWXU)
    }

    /// Sets the permission bits of the directory `path`.
    pub fn set_folder_mode(&mut self, path: &Path, mode: u32) -> io::Result<()> {
        let folder = self.folder_at(path)?;
        self.mounts.note(&folder)?;
        Ok(fchmod(folder, Mode::from_bits_truncate(mode & 0o7777))?)
    }

    /// Writes all changes to disk (syncfs(2)), on the root's file system and on mounts below the root that a handle
    /// used.
    pub fn sync(&self) -> io::Result<()> {
        syncfs(&self.folder)?;
        self.mounts.sync()
    }

    /// Writes the names in the root itself to disk.
    pub fn sync_folder(&self) -> io::Result<()> {
        sync_names(&self.folder)
    }

    fn folder_at(&mut self, path: &Path) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        Ok(beneath::enter(&self.folder, path)?)
    }

    /// Returns the open directory that contains `path`, and the path's last name. The root contains
    /// itself under the name `.`.
    pub(crate) fn parent<'a>(&mut self, path: &'a Path) -> io::Result<(&OwnedFd, &'a OsStr)> {
        if path.as_os_str().is_empty() {
            return Ok((&self.folder, OsStr::new(".")));
        }
        let Some(Component::Normal(name)) = path.components().next_back() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        if folder.as_os_str().is_empty() {
            self.reserved.check(&self.folder, name)?;
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
        self.reserved.check(folder, name)?;
        Ok((folder, name))
    }
}

/// Adds the permissions `rights` to the mode of `name` in `folder`.
fn permit(folder: &OwnedFd, name: &OsStr, rights: Mode) -> io::Result<()> {
    // Root needs no permissions.
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

/// Opens `name` in `folder` as a location only (`O_PATH`), which needs no permission on `name`.
fn itself(folder: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(beneath::open(folder, name, flags, Mode::empty())?)
}

/// File that is written at any offset, in any order.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    /// Second descriptor of the file, with direct I/O; opened at the first large write.
    direct: Option<File>,
    refused: bool,
    /// Bytes written to the page cache since writeback was last started.
    cached: usize,
}

/// Reserves disk space for the first `len` bytes of a file, so that a full disk is reported early.
///
/// On a file system that cannot reserve space, sets only the file's length. On tmpfs, checks the free space and sets the
/// length.
pub fn allocate(file: &File, len: u64) -> io::Result<()> {
    if fstatfs(file)?.f_type == libc::TMPFS_MAGIC {
        // Reserving would allocate all the memory at once and delay the writer.
        let there = file.metadata()?.blocks() * 512;
        let space = Space::of(file)?;
        let more = len.saturating_sub(there);
        space.check(more, 0).map_err(|_| Errno::NOSPC)?;
        return file.set_len(len);
    }
    match fallocate(file, FallocateFlags::empty(), 0, len) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(len),
        Err(error) => Err(error.into()),
    }
}

impl OutputFile {
    /// Bytes in the page cache at which writeback starts, so that the final sync is short.
    const CACHED_MAX: usize = 8 << 20;

    /// Shortest write, in bytes, that uses direct I/O.
    const DIRECT_MIN: usize = 256 << 10;

    /// Reserves disk space for `len` bytes, as [`allocate`] does.
    pub fn allocate(&self, len: u64) -> io::Result<()> {
        allocate(&self.file, len)
    }

    /// Writes `bytes` at `offset`. Uses direct I/O for the whole pages of a large aligned piece,
    /// and the page cache for the rest.
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
            start_writeback(&self.file);
        }
        Ok(())
    }

    /// Makes all further writes append to the file, whatever their offset, also if another program appends to it (`O_APPEND`).
    pub fn append_only(&mut self) -> io::Result<()> {
        // the second descriptor would write at the offset
        self.direct = None;
        self.refused = true;
        Ok(fcntl_setfl(
            &self.file,
            fcntl_getfl(&self.file)? | OFlags::APPEND,
        )?)
    }

    /// Fills `buffer` with bytes written at `offset`. Fails if the file ends before.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    /// Locks the file until this value and all values from [`Self::hold`] are dropped. Fails with `WouldBlock` if
    /// another process, or another open file of this one, holds the lock.
    pub fn lock(&self) -> io::Result<()> {
        Ok(rustix::fs::flock(
            &self.file,
            rustix::fs::FlockOperation::NonBlockingLockExclusive,
        )?)
    }

    /// Returns a file that keeps the lock.
    pub fn hold(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Returns the file's current version.
    pub fn version(&self) -> io::Result<Version> {
        version(&self.file)
    }

    /// Writes the bytes, the mode and the times to disk (fsync(2)).
    pub fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.file)?)
    }

    /// Sets the permission bits.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(fchmod(&self.file, Mode::from_bits_truncate(mode & 0o7777))?)
    }

    /// Sets the access and modification times.
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

/// File that is read at any offset.
#[derive(Debug)]
pub struct InputFile {
    file: File,
}

impl InputFile {
    /// Opens `path` for sequential reading. The path must not be a symbolic link.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self::of(File::from(file)))
    }

    /// Advises the kernel that `file` is read sequentially.
    pub(crate) fn of(file: File) -> Self {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Sequential).ok();
        Self { file }
    }

    /// Fills `buffer` from `offset`. Returns the number of bytes read, which is less than the
    /// buffer's length only at the end of the file.
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

    /// Drops the file's pages from the page cache, so that reads come from disk.
    pub fn forget(&self) -> io::Result<()> {
        Ok(rustix::fs::fadvise(
            &self.file,
            0,
            None,
            rustix::fs::Advice::DontNeed,
        )?)
    }

    /// Returns the file's current version.
    pub fn version(&self) -> io::Result<Version> {
        version(&self.file)
    }
}

impl AsFd for InputFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn version(file: &File) -> io::Result<Version> {
    let meta = file.metadata()?;
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

/// Maximum number of attempts to lock a file that other processes keep removing.
const LOCK_ATTEMPTS_MAX: usize = 100;

/// Returns timestamps with the same access and modification time.
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
