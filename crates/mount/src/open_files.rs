//! Files that programs have open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::{INodeNo, TimeOrNow};
use lighthaul_files::request::{FileInfo, FileKind};
use lighthaul_remote_files::client::reader::RemoteReader;
use lighthaul_remote_files::client::remote_files::RemoteFiles;
use lighthaul_remote_files::client::writer::RemoteWriter;
use lighthaul_remote_files::failure::{Failure, FailureKind};
use lighthaul_remote_files::message::FileVersion;

use crate::attributes::seconds_of;
use crate::inodes::below;

/// File or directory that a program has open.
#[derive(Clone, Debug)]
pub(crate) enum OpenFile {
    /// File for reading, with its inode number.
    Reader(INodeNo, Arc<RemoteReader>),
    /// File for writing.
    Writer(Arc<WrittenFile>),
    /// Directory, with its items at the time of opening.
    Folder(Arc<[FileInfo]>),
}

/// Effect of the close of a descriptor on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtClose {
    /// The file stays open: another process writes it, or a redirection has moved it to another descriptor.
    Stays,
    /// The file gets its name, with all that was written.
    Commits,
}

/// File that is written.
#[derive(Debug)]
pub(crate) struct WrittenFile {
    /// Path, which has its own lock, since a write can hold the lock of the state for long.
    path: Mutex<Vec<u8>>,
    state: Mutex<State>,
    owner: (u32, u32),
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct State {
    /// None after the file was removed, and while all writes are committed.
    writer: Option<RemoteWriter>,
    is_removed: bool,
    /// Version that has the name; from then on the file can only grow.
    named: Option<FileVersion>,
    /// True if there was no file when this one was created.
    is_new: bool,
    /// True if the version with the name is an empty one, which was committed before the first write.
    is_placeholder: bool,
    /// True if a program has written.
    was_written: bool,
    /// True if writes are not committed.
    is_dirty: bool,
    /// Permission bits.
    mode: Option<u32>,
    /// Permission bits and modification time that are set with the commit.
    set_mode: Option<u32>,
    set_time: Option<(i64, u32)>,
    /// Time of the last change.
    changed: (i64, u32),
    /// Process that opened the file, if known, and if it has not closed the file.
    process: Option<u32>,
}

impl WrittenFile {
    /// Returns the file at `path` with its owner and the process that opened it; `writer` writes the file.
    pub(crate) fn new(
        path: Vec<u8>,
        (writer, is_named): (RemoteWriter, bool),
        mode: Option<u32>,
        (owner, process): ((u32, u32), Option<u32>),
    ) -> Self {
        let state = State {
            named: is_named.then(|| writer.version()),
            is_new: false,
            is_placeholder: false,
            writer: Some(writer),
            is_removed: false,
            was_written: false,
            is_dirty: !is_named,
            mode,
            set_mode: None,
            set_time: None,
            changed: seconds_of(TimeOrNow::Now),
            process,
        };
        Self {
            path: Mutex::new(path),
            state: Mutex::new(state),
            owner,
        }
    }

    /// Returns the file, of which there was none before.
    pub(crate) fn new_name(self) -> Self {
        self.state().is_new = true;
        self
    }

    /// Returns the description of the file while it has no name.
    pub(crate) fn unnamed(&self) -> Option<FileInfo> {
        let state = self.state();
        let writer = state.writer.as_ref().filter(|_| state.named.is_none())?;
        let (user, group) = self.owner;
        let (seconds, nanos) = state.set_time.unwrap_or(state.changed);
        Some(FileInfo {
            path: self.path(),
            kind: FileKind::File,
            size: writer.size(),
            mode: state.mode.unwrap_or(0o644),
            user,
            group,
            seconds,
            nanos,
        })
    }

    /// Returns the size with all writes, committed or not.
    pub(crate) fn size(&self) -> Option<u64> {
        self.state().writer.as_ref().map(RemoteWriter::size)
    }

    /// Writes `bytes` at `offset`, or at the end with `appends`. Fails with [`FailureKind::Invalid`] elsewhere in a
    /// file that has its name.
    pub(crate) fn write(
        &self,
        files: &RemoteFiles,
        bytes: &[u8],
        (offset, appends): (u64, bool),
    ) -> Result<(), Failure> {
        let mut state = self.state();
        // appended bytes need no new version, and other programs may append, too
        if !appends {
            state.replace_placeholder(files, &self.path())?;
        }
        state.reopen(files, &self.path())?;
        let is_named = state.named.is_some();
        let writer = state.writer.as_ref().ok_or_else(removed)?;
        let size = writer.size();
        let offset = if appends { size } else { offset };
        if is_named && offset != size {
            return Err(rewrites());
        }
        writer.write(bytes, offset)?;
        state.note_change();
        Ok(())
    }

    /// Changes the size. A file that has its name can only be emptied, which starts a new version of it.
    pub(crate) fn truncate(&self, files: &RemoteFiles, size: u64) -> Result<(), Failure> {
        let mut state = self.state();
        let path = self.path();
        if size > 0 {
            state.replace_placeholder(files, &path)?;
        }
        state.reopen(files, &path)?;
        let writer = state.writer.as_ref().ok_or_else(removed)?;
        if writer.size() == size {
            return Ok(());
        }
        if state.named.is_none() {
            writer.truncate(size)?;
        } else if size == 0 {
            // bytes that were written before are kept if the file cannot be emptied
            if state.is_dirty {
                state.named = Some(writer.commit(None)?);
                state.is_dirty = false;
            }
            // the server lets one writer have the name
            state.writer = None;
            state.writer = Some(files.create(&path, None, false)?);
            state.named = None;
            state.is_placeholder = false;
        } else {
            return Err(rewrites());
        }
        state.note_change();
        Ok(())
    }

    /// Returns the effect when `process` closes one of the descriptors. A child closes the files that it inherits. A
    /// shell closes files that it has moved to another number before the first write, once for each redirection. Such a
    /// file replaces an older one only when it is complete; under a new name, it is empty until then.
    pub(crate) fn at_close(&self, process: Option<u32>) -> AtClose {
        let mut state = self.state();
        if state.process.is_some() && state.process != process {
            return AtClose::Stays;
        }
        let is_empty = state.named.is_none() || state.is_placeholder;
        if is_empty && !state.was_written {
            return if state.is_new || state.named.is_some() {
                AtClose::Commits
            } else {
                AtClose::Stays
            };
        }
        // from now on, a child that continues to write sees the errors of its own closes
        state.process = None;
        AtClose::Commits
    }

    /// Makes all writes durable, and gives the file its name. If it `closes`, another writer can have the name. Returns
    /// the version if it is new.
    pub(crate) fn commit(
        &self,
        files: &RemoteFiles,
        closes: bool,
    ) -> Result<Option<FileVersion>, Failure> {
        let mut state = self.state();
        let Some(writer) = state.writer.as_ref() else {
            return Ok(None);
        };
        let mut committed = None;
        if state.is_dirty {
            let version = writer.commit(None)?;
            committed = Some(version);
            state.named = committed;
            state.is_placeholder = !state.was_written;
            state.is_dirty = false;
        }
        if closes {
            // another program may write it now
            state.writer = None;
        }
        let (mode, time) = (state.set_mode.take(), state.set_time.take());
        if mode.is_some() || time.is_some() {
            files.set(&self.path(), mode, time)?;
        }
        Ok(committed)
    }

    /// Keeps attributes for the commit, if the file has no name or writes that are not committed. Returns false if they
    /// can be set at once. Fails if the file was removed.
    pub(crate) fn set(&self, mode: Option<u32>, time: Option<(i64, u32)>) -> Result<bool, Failure> {
        let mut state = self.state();
        if state.is_removed {
            return Err(removed());
        }
        state.mode = mode.or(state.mode);
        if !state.is_dirty || state.writer.is_none() {
            return Ok(false);
        }
        state.set_mode = mode.or(state.set_mode);
        state.set_time = time.or(state.set_time);
        Ok(true)
    }

    /// Drops written bytes that were not committed, since the file is removed.
    pub(crate) fn discard(&self) {
        let mut state = self.state();
        state.writer = None;
        state.is_removed = true;
    }

    /// Notes that the file is at `path` now.
    fn move_to(&self, path: Vec<u8>) {
        *self.path.lock().unwrap_or_else(PoisonError::into_inner) = path;
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> Vec<u8> {
        let path = self.path.lock();
        path.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_at(&self, path: &[u8]) -> bool {
        let own = self.path.lock();
        *own.unwrap_or_else(PoisonError::into_inner) == path
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Opens a file again after one of several descriptors was closed, or after the loss of a connection without
    /// uncommitted bytes.
    fn reopen(&mut self, files: &RemoteFiles, path: &[u8]) -> Result<(), Failure> {
        let is_lost = self.writer.as_ref().is_some_and(RemoteWriter::is_lost);
        if is_lost && !self.is_dirty {
            self.writer = None;
        }
        let Some(named) = self.named.filter(|_| self.writer.is_none()) else {
            return Ok(());
        };
        if self.is_removed {
            return Ok(());
        }
        let writer = files.append(path, Some(named.size))?;
        let version = writer.version();
        if (version.device, version.inode) != (named.device, named.inode) {
            let text = "another program has replaced the file; open it again";
            return Err(failure(FailureKind::Changed, text));
        }
        self.writer = Some(writer);
        Ok(())
    }

    /// Starts the version that replaces a placeholder, unless another program has written the file meanwhile.
    fn replace_placeholder(&mut self, files: &RemoteFiles, path: &[u8]) -> Result<(), Failure> {
        let Some(named) = self
            .named
            .filter(|_| self.is_placeholder && !self.is_removed)
        else {
            return Ok(());
        };
        // the server lets one writer have the name
        self.writer = None;
        let writer = files.create(path, None, false)?;
        let (_, there) = files.stat(path, false)?;
        if (there.device, there.inode, there.size) != (named.device, named.inode, 0) {
            let text = "another program has written or replaced the file; open it again";
            return Err(failure(FailureKind::Changed, text));
        }
        (self.writer, self.named) = (Some(writer), None);
        self.is_placeholder = false;
        Ok(())
    }

    fn note_change(&mut self) {
        self.was_written = true;
        self.is_dirty = true;
        self.changed = seconds_of(TimeOrNow::Now);
    }
}

/// All open files, by their handles.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    last: u64,
    files: BTreeMap<u64, OpenFile>,
}

impl OpenFiles {
    /// Adds a file, and returns its handle.
    pub(crate) fn add(&mut self, file: OpenFile) -> u64 {
        self.last += 1;
        self.files.insert(self.last, file);
        self.last
    }

    /// Returns the file of a handle.
    pub(crate) fn find(&self, handle: u64) -> Option<OpenFile> {
        self.files.get(&handle).cloned()
    }

    /// Removes a handle.
    pub(crate) fn remove(&mut self, handle: u64) -> Option<OpenFile> {
        self.files.remove(&handle)
    }

    /// Returns the file that is written at `path`.
    pub(crate) fn written(&self, path: &[u8]) -> Option<Arc<WrittenFile>> {
        self.files.values().find_map(|file| match file {
            OpenFile::Writer(written) if written.is_at(path) => Some(Arc::clone(written)),
            OpenFile::Writer(_) | OpenFile::Reader(..) | OpenFile::Folder(_) => None,
        })
    }

    /// Notes that the item at `from`, with all below it, is now at `to`.
    pub(crate) fn rename(&self, from: &[u8], to: &[u8]) {
        for file in self.files.values() {
            let OpenFile::Writer(written) = file else {
                continue;
            };
            let path = written.path();
            if path == from || path.starts_with(&below(from)) {
                written.move_to([to, &path[from.len()..]].concat());
            }
        }
    }
}

fn removed() -> Failure {
    failure(FailureKind::NotFound, "the file was removed")
}

/// Returns the failure of a write that would rewrite a part of a file.
pub(crate) fn rewrites() -> Failure {
    let text = "a file that has its name can only grow; write a new file instead";
    failure(FailureKind::Invalid, text)
}

fn failure(kind: FailureKind, text: &str) -> Failure {
    Failure {
        kind,
        code: lighthaul_session::error::Code::Io,
        text: text.to_owned(),
    }
}
