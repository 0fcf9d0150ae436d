//! Requests of the kernel.
//!
//! Some threads serve them, so that a slow one delays the others only if many are slow. The kernel keeps attributes and
//! names for [`TTL`]. A directory is listed once when it is opened, with the attributes of its items.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use lighthaul_files::request::{FileInfo, FileKind};
use rustix::fs::OFlags;

use crate::attributes::{attributes, errno, kind_of, seconds_of};
use crate::file_system::FileSystem;
use crate::open_files::OpenFile;
use crate::replies::{TTL, folder, join, reply_empty, reply_entry, rows, write_errno};

/// Bytes of one write, and of the kernel's own read-ahead.
const TRANSFER_MAX: u32 = 1 << 20;
/// Longest name of a file, in bytes.
const NAME_MAX: u32 = 255;
/// Blocks that statfs(2) shows as free, of 4 KiB. The server is not asked.
const FREE_BLOCKS: u64 = 1 << 32;

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

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let find = || self.child(parent, name).and_then(|path| self.entry(&path));
        reply_entry(reply, self.waits.during(request, find));
    }

    fn forget(&self, _: &Request, inode: INodeNo, lookups: u64) {
        self.inodes().forget(inode, lookups);
    }

    fn getattr(&self, request: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.waits.during(request, || self.attributes_of(inode)) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
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
            let found = self.attributes_of(inode)?;
            let is_other = user.is_some_and(|user| user != found.uid)
                || group.is_some_and(|group| group != found.gid);
            if is_other {
                Err(Errno::EPERM)
            } else {
                Ok(found)
            }
        });
        match found {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, request: &Request, inode: INodeNo, reply: ReplyData) {
        let find = || self.path(inode).and_then(|path| self.info(&path));
        match self.waits.during(request, find) {
            Ok((
                FileInfo {
                    kind: FileKind::Link(target),
                    ..
                },
                _,
            )) => reply.data(&target),
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
        let removed = self.child(parent, name);
        reply_empty(reply, removed.and_then(|path| self.remove(&path)));
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
            if flags.is_empty() || flags == RenameFlags::RENAME_NOREPLACE {
                self.rename(&from, &to, flags.is_empty())
            } else {
                Err(Errno::EINVAL)
            }
        };
        reply_empty(reply, renamed());
    }

    fn open(&self, request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let open = || self.open_file(request, inode, flags);
        let opened = match flags.acc_mode() {
            OpenAccMode::O_RDONLY => self.waits.during(request, open),
            OpenAccMode::O_WRONLY | OpenAccMode::O_RDWR => open(),
        };
        match opened {
            Ok((handle, flags)) => reply.opened(FileHandle(handle), flags),
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
            let mode = mode & !umask & 0o777;
            let handle = self.create_file(request, &path, Some(mode), flags)?;
            Ok((handle, self.entry(&path)?))
        });
        match created {
            Ok((handle, attributes)) => reply.created(
                &TTL,
                &attributes,
                Generation(0),
                FileHandle(handle),
                FopenFlags::FOPEN_DIRECT_IO,
            ),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = match self.file(handle) {
            Ok(OpenFile::Reader(_, reader)) => {
                let read = || reader.read_at(offset, size as usize);
                let read = self.waits.during(request, read);
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
        inode: INodeNo,
        handle: FileHandle,
        _: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply_empty(reply, self.close(request, inode, handle));
    }

    fn fsync(&self, _: &Request, inode: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(reply, self.commit(inode, handle, false));
    }

    fn release(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        // close(2) has reported a failure already
        let committed = self.commit(inode, handle, true);
        self.forget_file(handle);
        reply_empty(reply, committed);
    }

    fn opendir(&self, request: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let list = || {
            let path = self.path(inode)?;
            let items = self.files.list(&path).map_err(|error| errno(&error))?;
            let file = OpenFile::Folder(items.into());
            Ok(self.open_files().add(file))
        };
        match self.waits.during(request, list) {
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
                    let found = self.inodes().look_up_listed(&join(&path, name), item);
                    (Some(found.ino.0), found)
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
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.forget_file(handle);
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
