//! Requests of the kernel.
//!
//! Each request runs on a thread of its own, so that a slow one delays no other. The kernel keeps attributes and names for
//! [`TTL`]. A directory is listed once when it is opened, with the attributes of its items.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use lighthaul_files::request::{FileInfo, FileKind};
use lighthaul_remote_files::client::remote_files::RemoteFiles;
use lighthaul_remote_files::failure::{Failure, FailureKind};
use rustix::fs::OFlags;

use crate::attributes::{attributes, errno, kind_of, seconds_of};
use crate::inodes::Inodes;
use crate::open_files::{OpenFile, OpenFiles, WrittenFile};
use crate::opener::{caller, opener};
use crate::replies::{Answer, TTL, folder, join, reply_empty, reply_entry, rows, write_errno};

/// Bytes of one write, and of the kernel's own read-ahead.
const TRANSFER_MAX: u32 = 1 << 20;
/// Longest name of a file, in bytes.
const NAME_MAX: u32 = 255;
/// Blocks that statfs(2) shows as free, of 4 KiB. The server is not asked.
const FREE_BLOCKS: u64 = 1 << 32;

/// File system whose files are on the server.
#[derive(Debug)]
pub(crate) struct FileSystem {
    files: RemoteFiles,
    inodes: Mutex<Inodes>,
    open: Mutex<OpenFiles>,
}

impl FileSystem {
    /// Returns the file system of the directory at `path`.
    pub(crate) fn new(files: RemoteFiles, path: Vec<u8>) -> Self {
        Self {
            files,
            inodes: Mutex::new(Inodes::new(path)),
            open: Mutex::default(),
        }
    }

    fn inodes(&self) -> MutexGuard<'_, Inodes> {
        self.inodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_files(&self) -> MutexGuard<'_, OpenFiles> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, inode: INodeNo) -> Answer<Vec<u8>> {
        self.inodes().path(inode).ok_or(Errno::ESTALE)
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> Answer<Vec<u8>> {
        Ok(join(&self.path(parent)?, name.as_bytes()))
    }

    fn info(&self, path: &[u8]) -> Answer<FileInfo> {
        let written = self.open_files().written(path);
        if let Some(info) = written.as_ref().and_then(|written| written.unnamed()) {
            return Ok(info);
        }
        let (mut info, _) = self.files.stat(path, false).map_err(|e| errno(&e))?;
        if let Some(size) = written.and_then(|written| written.size()) {
            info.size = size;
        }
        Ok(info)
    }

    /// Returns the attributes of the item at `path`, and counts a lookup.
    fn entry(&self, path: &[u8]) -> Answer<FileAttr> {
        let info = self.info(path)?;
        Ok(attributes(self.inodes().look_up(path), &info))
    }

    fn file(&self, FileHandle(handle): FileHandle) -> Answer<OpenFile> {
        self.open_files().find(handle).ok_or(Errno::EBADF)
    }

    fn written(&self, handle: FileHandle) -> Answer<Arc<WrittenFile>> {
        match self.file(handle)? {
            OpenFile::Writer(written) => Ok(written),
            OpenFile::Reader(_) | OpenFile::Folder(_) => Err(Errno::EBADF),
        }
    }

    fn create_file(
        &self,
        request: &Request,
        path: &[u8],
        mode: Option<u32>,
        flags: i32,
    ) -> Answer<u64> {
        let is_new = flags & OFlags::EXCL.bits().cast_signed() != 0;
        let writer = self.files.create(path, mode, is_new);
        let writer = writer.map_err(|error| errno(&error))?;
        let opener = opener(request);
        let written = WrittenFile::new(path.to_vec(), (writer, false), mode, opener);
        let file = OpenFile::Writer(Arc::new(written));
        Ok(self.open_files().add(file))
    }

    fn open_file(&self, request: &Request, inode: INodeNo, flags: OpenFlags) -> Answer<u64> {
        let path = self.path(inode)?;
        let OpenFlags(bits) = flags;
        if flags.acc_mode() == OpenAccMode::O_RDONLY {
            let reader = self.files.open(&path).map_err(|error| errno(&error))?;
            return Ok(self.open_files().add(OpenFile::Reader(Arc::new(reader))));
        }
        if bits & OFlags::TRUNC.bits().cast_signed() != 0 {
            return self.create_file(request, &path, None, 0);
        }
        let writer = self.files.append(&path, None).map_err(|e| errno(&e))?;
        let written = WrittenFile::new(path, (writer, true), None, opener(request));
        let file = OpenFile::Writer(Arc::new(written));
        Ok(self.open_files().add(file))
    }

    fn set(
        &self,
        inode: INodeNo,
        (mode, time, size): (Option<u32>, Option<(i64, u32)>, Option<u64>),
        handle: Option<FileHandle>,
    ) -> Answer<()> {
        let path = self.path(inode)?;
        let written = match handle.map(|handle| self.written(handle)) {
            Some(Ok(written)) => Some(written),
            Some(Err(_)) | None => self.open_files().written(&path),
        };
        let done = || -> Result<(), Failure> {
            if let Some(size) = size {
                match &written {
                    Some(written) => written.truncate(&self.files, size)?,
                    None => self.truncate(&path, size)?,
                }
            }
            let kept = written.is_some_and(|written| written.set(mode, time));
            if !kept && (mode.is_some() || time.is_some()) {
                self.files.set(&path, mode, time)?;
            }
            Ok(())
        };
        done().map_err(|error| write_errno(&error))
    }

    /// Empties a file that no program has open.
    fn truncate(&self, path: &[u8], size: u64) -> Result<(), Failure> {
        let (info, _) = self.files.stat(path, true)?;
        if info.size == size {
            return Ok(());
        }
        if size > 0 {
            return Err(Failure {
                kind: FailureKind::Invalid,
                code: lighthaul_session::error::Code::Io,
                text: "only a new file can have another size".to_owned(),
            });
        }
        self.files.create(path, None, false)?.commit(None).map(drop)
    }

    fn commit(&self, handle: FileHandle, closes: bool) -> Answer<()> {
        let OpenFile::Writer(written) = self.file(handle)? else {
            return Ok(());
        };
        let committed = written.commit(&self.files, closes).and_then(|()| {
            let mode = written.mode();
            mode.map_or(Ok(()), |mode| {
                self.files.set(&written.path(), Some(mode), None)
            })
        });
        committed.map_err(|error| errno(&error))
    }

    /// Commits a file that its opener closes.
    fn close(&self, request: &Request, handle: FileHandle) -> Answer<()> {
        match self.file(handle)? {
            OpenFile::Writer(written) if written.is_of_another(caller(request)) => Ok(()),
            OpenFile::Writer(_) | OpenFile::Reader(_) | OpenFile::Folder(_) => {
                self.commit(handle, true)
            }
        }
    }

    fn items(&self, handle: FileHandle) -> Answer<Arc<[FileInfo]>> {
        match self.file(handle)? {
            OpenFile::Folder(items) => Ok(items),
            OpenFile::Reader(_) | OpenFile::Writer(_) => Err(Errno::EBADF),
        }
    }
}

impl Filesystem for FileSystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // what the kernel lacks is only slower
        for flag in [
            InitFlags::FUSE_ASYNC_READ,
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
        ] {
            config.add_capabilities(flag).ok();
        }
        if let Err(most) = config.set_max_write(TRANSFER_MAX) {
            config.set_max_write(most).ok();
        }
        if let Err(most) = config.set_max_readahead(TRANSFER_MAX) {
            config.set_max_readahead(most).ok();
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.child(parent, name).and_then(|path| self.entry(&path));
        reply_entry(reply, found);
    }

    fn forget(&self, _: &Request, inode: INodeNo, lookups: u64) {
        self.inodes().forget(inode, lookups);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let found = self.path(inode).and_then(|path| self.info(&path));
        match found {
            Ok(info) => reply.attr(&TTL, &attributes(inode.0, &info)),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        time: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let wanted = (mode, time.map(seconds_of), size);
        let found = self.set(inode, wanted, handle).and_then(|()| {
            let info = self.info(&self.path(inode)?)?;
            let is_other = user.is_some_and(|user| user != info.user)
                || group.is_some_and(|group| group != info.group);
            if is_other {
                Err(Errno::EPERM)
            } else {
                Ok(info)
            }
        });
        match found {
            Ok(info) => reply.attr(&TTL, &attributes(inode.0, &info)),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        let found = self.path(inode).and_then(|path| self.info(&path));
        match found {
            Ok(FileInfo {
                kind: FileKind::Link(target),
                ..
            }) => reply.data(&target),
            Ok(_) => reply.error(Errno::EINVAL),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let made = self.child(parent, name).and_then(|path| {
            let made = self.files.make_folder(&path);
            let made = made.and_then(|()| self.files.set(&path, Some(mode & !umask), None));
            made.map_err(|error| errno(&error))?;
            self.entry(&path)
        });
        reply_entry(reply, made);
    }

    fn symlink(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &std::path::Path,
        reply: ReplyEntry,
    ) {
        let made = self.child(parent, name).and_then(|path| {
            let target = target.as_os_str().as_bytes();
            let made = self.files.make_link(&path, target);
            made.map_err(|error| errno(&error))?;
            self.entry(&path)
        });
        reply_entry(reply, made);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.child(parent, name).and_then(|path| {
            let written = self.open_files().written(&path);
            let unnamed = written.as_ref().and_then(|written| written.unnamed());
            let removed = match (&written, unnamed) {
                (Some(written), Some(_)) => {
                    written.discard();
                    // an earlier version may have the name
                    match self.files.remove(&path) {
                        Err(failure) if failure.kind == FailureKind::NotFound => Ok(()),
                        removed => removed,
                    }
                }
                _ => self.files.remove(&path),
            };
            removed.map_err(|error| errno(&error))?;
            self.inodes().remove(&path);
            Ok(())
        });
        reply_empty(reply, removed);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.child(parent, name).and_then(|path| {
            let removed = self.files.remove_folder(&path);
            removed.map_err(|error| errno(&error))?;
            self.inodes().remove(&path);
            Ok(())
        });
        reply_empty(reply, removed);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = || {
            let (from, to) = (self.child(parent, name)?, self.child(new_parent, new_name)?);
            let replace = flags.is_empty();
            if !replace && flags != RenameFlags::RENAME_NOREPLACE {
                return Err(Errno::EINVAL);
            }
            let written = self.open_files().written(&from);
            if let Some(written) = &written {
                let committed = written.commit(&self.files, false);
                committed.map_err(|error| errno(&error))?;
            }
            let renamed = self.files.rename(&from, &to, replace);
            renamed.map_err(|error| errno(&error))?;
            if let Some(written) = written {
                written.move_to(to.clone());
            }
            self.inodes().rename(&from, &to);
            Ok(())
        };
        reply_empty(reply, renamed());
    }

    fn open(&self, request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.open_file(request, inode, flags) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let created = self.child(parent, name).and_then(|path| {
            let handle = self.create_file(request, &path, Some(mode & !umask & 0o777), flags)?;
            Ok((handle, self.entry(&path)?))
        });
        match created {
            Ok((handle, attributes)) => reply.created(
                &TTL,
                &attributes,
                Generation(0),
                FileHandle(handle),
                FopenFlags::empty(),
            ),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = match self.file(handle) {
            Ok(OpenFile::Reader(reader)) => {
                let read = reader.read_at(offset, size as usize);
                read.map_err(|error| errno(&error))
            }
            Ok(OpenFile::Writer(_)) => Err(Errno::EOPNOTSUPP),
            Ok(OpenFile::Folder(_)) => Err(Errno::EISDIR),
            Err(error) => Err(error),
        };
        match read {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        OpenFlags(flags): OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let appends = flags & OFlags::APPEND.bits().cast_signed() != 0;
        let done = self.written(handle).and_then(|written| {
            let done = written.write(&self.files, bytes, (offset, appends));
            done.map_err(|error| write_errno(&error))
        });
        match done {
            Ok(()) => reply.written(bytes.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply_empty(reply, self.close(request, handle));
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(reply, self.commit(handle, false));
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        // close(2) has reported a failure already
        let committed = self.commit(handle, true);
        drop(self.open_files().remove(handle.0));
        reply_empty(reply, committed);
    }

    fn opendir(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let listed = self.path(inode).and_then(|path| {
            let items = self.files.list(&path).map_err(|error| errno(&error))?;
            let file = OpenFile::Folder(items.into());
            Ok(self.open_files().add(file))
        });
        match listed {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let (items, path) = match (self.items(handle), self.path(inode)) {
            (Ok(items), Ok(path)) => (items, path),
            (Err(error), _) | (_, Err(error)) => return reply.error(error),
        };
        for (nth, name, item) in rows(&items, offset) {
            let (number, kind) = match item {
                Some(item) => (
                    self.inodes().number(&join(&path, name)),
                    kind_of(&item.kind),
                ),
                None => (inode.0, FileType::Directory),
            };
            if reply.add(INodeNo(number), nth, kind, OsStr::from_bytes(name)) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let (items, path) = match (self.items(handle), self.path(inode)) {
            (Ok(items), Ok(path)) => (items, path),
            (Err(error), _) | (_, Err(error)) => return reply.error(error),
        };
        for (nth, name, item) in rows(&items, offset) {
            let (child, attributes) = match item {
                Some(item) => {
                    let child = join(&path, name);
                    let number = self.inodes().look_up(&child);
                    (Some(number), attributes(number, item))
                }
                None => (None, attributes(inode.0, &folder())),
            };
            let name = OsStr::from_bytes(name);
            let ino = attributes.ino;
            if reply.add(ino, nth, name, &TTL, &attributes, Generation(0)) {
                if let Some(number) = child {
                    self.inodes().forget(INodeNo(number), 1);
                }
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        FileHandle(handle): FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.open_files().remove(handle);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // the server syncs directories with each change
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let free = FREE_BLOCKS;
        reply.statfs(free, free, free, free, free, 4096, NAME_MAX, 4096);
    }
}
