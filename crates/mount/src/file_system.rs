//! Work of the kernel's requests: files of the server, inode numbers, and open files.
//!
//! A program that reads a file sees one version of it, although the kernel keeps pages by inode number. So a replaced
//! file gets another number, and files that are written bypass the pages.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::{Errno, FileAttr, FileHandle, FopenFlags, INodeNo, OpenAccMode, OpenFlags, Request};
use lighthaul_files::manifest::PATH_MAX;
use lighthaul_files::request::FileInfo;
use lighthaul_remote_files::client::remote_files::RemoteFiles;
use lighthaul_remote_files::failure::{Failure, FailureKind};
use lighthaul_remote_files::message::FileVersion;
use rustix::fs::OFlags;

use crate::attributes::{attributes, errno};
use crate::inodes::Inodes;
use crate::open_files::{AtClose, OpenFile, OpenFiles, WrittenFile, rewrites};
use crate::opener::{caller, opener};
use crate::replies::{Answer, join, write_errno};
use crate::waits::Waits;

/// File system whose files are on the server.
#[derive(Debug)]
pub(crate) struct FileSystem {
    pub(crate) files: RemoteFiles,
    /// Path of the mounted directory.
    root: Vec<u8>,
    inodes: Mutex<Inodes>,
    open: Mutex<OpenFiles>,
    /// Requests that wait for the server.
    pub(crate) waits: Arc<Waits>,
}

impl FileSystem {
    /// Returns the file system of the directory at `path`.
    pub(crate) fn new(files: RemoteFiles, path: Vec<u8>) -> io::Result<Self> {
        Ok(Self {
            files,
            root: path.clone(),
            inodes: Mutex::new(Inodes::new(path)),
            open: Mutex::default(),
            waits: Waits::start()?,
        })
    }

    pub(crate) fn inodes(&self) -> MutexGuard<'_, Inodes> {
        self.inodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn open_files(&self) -> MutexGuard<'_, OpenFiles> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn path(&self, inode: INodeNo) -> Answer<Vec<u8>> {
        self.inodes().path(inode).ok_or(Errno::ESTALE)
    }

    pub(crate) fn child(&self, parent: INodeNo, name: &OsStr) -> Answer<Vec<u8>> {
        let path = join(&self.path(parent)?, name.as_bytes());
        if path.len() > PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        Ok(path)
    }

    /// Returns the description of the item at `path`, with its version unless it has no name yet.
    pub(crate) fn info(&self, path: &[u8]) -> Answer<(FileInfo, Option<FileVersion>)> {
        let written = self.open_files().written(path);
        if let Some(info) = written.as_ref().and_then(|written| written.unnamed()) {
            return Ok((info, None));
        }
        // the mounted place may be a symbolic link
        let follow = path == self.root;
        let (mut info, version) = self.files.stat(path, follow).map_err(|e| errno(&e))?;
        if let Some(size) = written.and_then(|written| written.size()) {
            info.size = size;
        }
        Ok((info, Some(version)))
    }

    /// Returns the attributes of the item at `path`, and counts a lookup.
    pub(crate) fn entry(&self, path: &[u8]) -> Answer<FileAttr> {
        let (info, version) = self.info(path)?;
        Ok(self.inodes().look_up(path, &info, version))
    }

    /// Returns the attributes of an inode. Those of a file that was removed or replaced do not change any more.
    pub(crate) fn attributes_of(&self, inode: INodeNo) -> Answer<FileAttr> {
        let Some(path) = self.inodes().path(inode) else {
            return self.inodes().last(inode).ok_or(Errno::ESTALE);
        };
        let found = self.info(&path);
        let mut inodes = self.inodes();
        match found {
            Ok((_, Some(version))) if !inodes.is_still(inode, version) => {
                inodes.last(inode).ok_or(Errno::ESTALE)
            }
            Ok((info, _)) => {
                let found = attributes(inode.0, &info);
                inodes.remember(inode, found);
                Ok(found)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn file(&self, FileHandle(handle): FileHandle) -> Answer<OpenFile> {
        self.open_files().find(handle).ok_or(Errno::EBADF)
    }

    pub(crate) fn written(&self, handle: FileHandle) -> Answer<Arc<WrittenFile>> {
        match self.file(handle)? {
            OpenFile::Writer(written) => Ok(written),
            OpenFile::Reader(..) | OpenFile::Folder(_) => Err(Errno::EBADF),
        }
    }

    /// Removes a handle. Closing may wait for the server, which no other request should.
    pub(crate) fn forget_file(&self, FileHandle(handle): FileHandle) {
        let removed = self.open_files().remove(handle);
        if let Some(OpenFile::Reader(inode, reader)) = &removed {
            self.inodes().close(*inode, reader.version());
        }
        drop(removed);
    }

    pub(crate) fn create_file(
        &self,
        request: &Request,
        path: &[u8],
        mode: Option<u32>,
        flags: i32,
    ) -> Answer<u64> {
        let has = |flag: OFlags| flags & flag.bits().cast_signed() != 0;
        // the kernel has found no file: one that appears meanwhile is only replaced by a program that would empty it
        let is_new = has(OFlags::EXCL) || !has(OFlags::TRUNC);
        let writer = self.files.create(path, mode, is_new);
        let writer = writer.map_err(|error| {
            if error.kind == FailureKind::Exists && !has(OFlags::EXCL) {
                // the kernel looks again
                return Errno::ESTALE;
            }
            errno(&error)
        })?;
        let opener = opener(request);
        let mut written = WrittenFile::new(path.to_vec(), (writer, false), mode, opener);
        // the kernel creates a file with a mode, and only empties one that it has found
        if mode.is_some() {
            written = written.new_name();
        }
        let file = OpenFile::Writer(Arc::new(written));
        Ok(self.open_files().add(file))
    }

    /// Opens a file. Returns its handle and flags for the kernel.
    pub(crate) fn open_file(
        &self,
        request: &Request,
        inode: INodeNo,
        flags: OpenFlags,
    ) -> Answer<(u64, FopenFlags)> {
        let path = self.path(inode)?;
        let OpenFlags(bits) = flags;
        if flags.acc_mode() == OpenAccMode::O_RDONLY {
            return self.open_reader(inode, &path);
        }
        let handle = if bits & OFlags::TRUNC.bits().cast_signed() != 0 {
            self.leave_to_readers(inode)?;
            self.create_file(request, &path, None, OFlags::TRUNC.bits().cast_signed())?
        } else {
            let writer = self.files.append(&path, None).map_err(|e| errno(&e))?;
            let written = WrittenFile::new(path, (writer, true), None, opener(request));
            let file = OpenFile::Writer(Arc::new(written));
            self.open_files().add(file)
        };
        Ok((handle, FopenFlags::FOPEN_DIRECT_IO))
    }

    fn open_reader(&self, inode: INodeNo, path: &[u8]) -> Answer<(u64, FopenFlags)> {
        let reader = self.files.open(path).map_err(|error| errno(&error))?;
        let written = self.open_files().written(path);
        let is_written = written.is_some_and(|written| written.unnamed().is_some());
        let version = reader.version();
        let shares = {
            let mut inodes = self.inodes();
            if !is_written && !inodes.is_still(inode, version) {
                // the kernel looks again, and finds another number
                return Err(Errno::ESTALE);
            }
            inodes.open(inode, version)
        };
        let flags = if shares && !is_written {
            FopenFlags::empty()
        } else {
            FopenFlags::FOPEN_DIRECT_IO
        };
        let file = OpenFile::Reader(inode, Arc::new(reader));
        Ok((self.open_files().add(file), flags))
    }

    /// Keeps the number of a file that will be emptied for the programs that read it. The kernel looks again.
    fn leave_to_readers(&self, inode: INodeNo) -> Answer<()> {
        let mut inodes = self.inodes();
        if inodes.is_read(inode) {
            inodes.replace(inode);
            return Err(Errno::ESTALE);
        }
        Ok(())
    }

    pub(crate) fn set(
        &self,
        inode: INodeNo,
        (mode, time, size): (Option<u32>, Option<(i64, u32)>, Option<u64>),
        handle: Option<FileHandle>,
    ) -> Answer<()> {
        let own = handle.and_then(|handle| self.written(handle).ok());
        let path = match &own {
            Some(written) => written.path(),
            None => self.path(inode)?,
        };
        let written = own.or_else(|| self.open_files().written(&path));
        if size.is_some() && written.is_none() {
            self.leave_to_readers(inode)?;
        }
        let done = || -> Result<(), Failure> {
            if let Some(size) = size {
                match &written {
                    Some(written) => written.truncate(&self.files, size)?,
                    None => self.truncate(&path, size)?,
                }
            }
            let kept = match &written {
                Some(written) => written.set(mode, time)?,
                None => false,
            };
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
            return Err(rewrites());
        }
        self.files.create(path, None, false)?.commit(None).map(drop)
    }

    pub(crate) fn commit(&self, inode: INodeNo, handle: FileHandle, closes: bool) -> Answer<()> {
        let OpenFile::Writer(written) = self.file(handle)? else {
            return Ok(());
        };
        let committed = written.commit(&self.files, closes);
        if let Some(version) = committed.map_err(|error| errno(&error))? {
            self.inodes().adopt(inode, version);
        }
        Ok(())
    }

    /// Commits a file when the process that opened it closes it. The caller sees the failure.
    pub(crate) fn close(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
    ) -> Answer<()> {
        let OpenFile::Writer(written) = self.file(handle)? else {
            return Ok(());
        };
        match written.at_close(caller(request)) {
            AtClose::Stays => Ok(()),
            AtClose::Commits => self.commit(inode, handle, true),
        }
    }

    /// Removes the file or link at `path`.
    pub(crate) fn remove(&self, path: &[u8]) -> Answer<()> {
        let written = self.open_files().written(path);
        let is_unnamed = written
            .as_ref()
            .is_some_and(|written| written.unnamed().is_some());
        match self.files.remove(path) {
            // an earlier version may have had the name
            Err(failure) if is_unnamed && failure.kind == FailureKind::NotFound => {}
            removed => removed.map_err(|error| errno(&error))?,
        }
        if let Some(written) = written {
            written.discard();
        }
        self.inodes().remove(path);
        Ok(())
    }

    /// Renames `from` to `to`.
    pub(crate) fn rename(&self, from: &[u8], to: &[u8], replace: bool) -> Answer<()> {
        let written = self.open_files().written(from);
        if let Some(written) = &written {
            let committed = written.commit(&self.files, false);
            committed.map_err(|error| errno(&error))?;
        }
        let renamed = self.files.rename(from, to, replace);
        renamed.map_err(|error| errno(&error))?;
        let replaced = self.open_files().written(to);
        if let Some(replaced) = replaced {
            replaced.discard();
        }
        self.open_files().rename(from, to);
        self.inodes().rename(from, to);
        Ok(())
    }

    pub(crate) fn items(&self, handle: FileHandle) -> Answer<Arc<[FileInfo]>> {
        match self.file(handle)? {
            OpenFile::Folder(items) => Ok(items),
            OpenFile::Reader(..) | OpenFile::Writer(_) => Err(Errno::EBADF),
        }
    }
}
