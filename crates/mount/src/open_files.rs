//! Files that programs have open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lighthaul_files::request::{FileInfo, FileKind};
use lighthaul_remote_files::client::reader::RemoteReader;
use lighthaul_remote_files::client::remote_files::RemoteFiles;
use lighthaul_remote_files::client::writer::RemoteWriter;
use lighthaul_remote_files::failure::{Failure, FailureKind};

/// File or directory that a program has open.
#[derive(Clone, Debug)]
pub(crate) enum OpenFile {
    /// File for reading.
    Reader(Arc<RemoteReader>),
    /// File for writing.
    Writer(Arc<WrittenFile>),
    /// Directory, with its items at the time of opening.
    Folder(Arc<[FileInfo]>),
}

/// File that is written.
#[derive(Debug)]
pub(crate) struct WrittenFile {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    path: Vec<u8>,
    /// None after the file was removed, and while it is complete.
    writer: Option<RemoteWriter>,
    is_removed: bool,
    /// True if the file has its name, so that it can only grow.
    is_named: bool,
    /// True if writes are not committed.
    is_dirty: bool,
    /// Attributes that are set with the commit.
    mode: Option<u32>,
    time: Option<(i64, u32)>,
    owner: (u32, u32),
    /// Process that opened the file, if that is known.
    process: Option<u32>,
}

impl WrittenFile {
    /// Returns the file at `path`, of this owner and opened by this process, that `writer` writes.
    pub(crate) fn new(
        path: Vec<u8>,
        (writer, is_named): (RemoteWriter, bool),
        mode: Option<u32>,
        (owner, process): ((u32, u32), Option<u32>),
    ) -> Self {
        let state = State {
            path,
            writer: Some(writer),
            is_removed: false,
            is_named,
            is_dirty: !is_named,
            mode,
            time: None,
            owner,
            process,
        };
        Self {
            state: Mutex::new(state),
        }
    }

    /// Returns the description of the file while it has no name.
    pub(crate) fn unnamed(&self) -> Option<FileInfo> {
        let state = self.state();
        let writer = state.writer.as_ref().filter(|_| !state.is_named)?;
        let (user, group) = state.owner;
        let (seconds, nanos) = state.time.unwrap_or_default();
        Some(FileInfo {
            path: state.path.clone(),
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

    /// Writes `bytes` at `offset`, or at the end with `appends`. Fails with [`FailureKind::Invalid`] elsewhere in a file
    /// that has its name.
    pub(crate) fn write(
        &self,
        files: &RemoteFiles,
        bytes: &[u8],
        (offset, appends): (u64, bool),
    ) -> Result<(), Failure> {
        let mut state = self.state();
        state.reopen(files)?;
        let is_named = state.is_named;
        let writer = state.writer.as_ref().ok_or_else(removed)?;
        let size = writer.size();
        let offset = if appends { size } else { offset };
        if is_named && offset != size {
            return Err(rewrites());
        }
        writer.write(bytes, offset)?;
        state.is_dirty = true;
        Ok(())
    }

    /// Changes the size. A file that has its name can only be emptied, which starts a new version of it.
    pub(crate) fn truncate(&self, files: &RemoteFiles, size: u64) -> Result<(), Failure> {
        let mut state = self.state();
        state.reopen(files)?;
        let writer = state.writer.as_ref().ok_or_else(removed)?;
        if writer.size() == size {
            return Ok(());
        }
        if !state.is_named {
            writer.truncate(size)?;
        } else if size == 0 {
            // the server lets one writer have the name
            state.writer = None;
            state.writer = Some(files.create(&state.path, None, false)?);
            state.is_named = false;
        } else {
            return Err(rewrites());
        }
        state.is_dirty = true;
        Ok(())
    }

    /// Returns true if another process than `process` has opened the file. A child closes the files that it inherits.
    pub(crate) fn is_of_another(&self, process: Option<u32>) -> bool {
        let opener = self.state().process;
        opener.is_some() && opener != process
    }

    /// Makes all writes durable, and gives the file its name. If it `closes`, another writer can have the name.
    pub(crate) fn commit(&self, files: &RemoteFiles, closes: bool) -> Result<(), Failure> {
        let mut state = self.state();
        let Some(writer) = state.writer.as_ref() else {
            return Ok(());
        };
        if state.is_dirty {
            writer.commit(None)?;
            state.is_named = true;
            state.is_dirty = false;
        }
        if closes {
            // another program may write it now
            state.writer = None;
        }
        if let Some(time) = state.time.take() {
            files.set(&state.path, None, Some(time))?;
        }
        Ok(())
    }

    /// Keeps attributes for the commit, if the file has no name. Returns false if it has one.
    pub(crate) fn set(&self, mode: Option<u32>, time: Option<(i64, u32)>) -> bool {
        let mut state = self.state();
        if state.is_named && !state.is_dirty || state.writer.is_none() {
            return false;
        }
        state.mode = mode.or(state.mode);
        state.time = time.or(state.time);
        true
    }

    /// Returns the permission bits that were set before the file had its name.
    pub(crate) fn mode(&self) -> Option<u32> {
        self.state().mode
    }

    /// Drops what was written and not committed, since the file is removed.
    pub(crate) fn discard(&self) {
        let mut state = self.state();
        state.writer = None;
        state.is_removed = true;
    }

    /// Notes that the file is at `path` now.
    pub(crate) fn move_to(&self, path: Vec<u8>) {
        self.state().path = path;
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> Vec<u8> {
        self.state().path.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Opens a file again that was closed by one of several descriptors.
    fn reopen(&mut self, files: &RemoteFiles) -> Result<(), Failure> {
        if self.writer.is_none() && !self.is_removed {
            self.writer = Some(files.append(&self.path, None)?);
        }
        Ok(())
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
            OpenFile::Writer(written) if written.path() == path => Some(Arc::clone(written)),
            OpenFile::Writer(_) | OpenFile::Reader(_) | OpenFile::Folder(_) => None,
        })
    }
}

fn removed() -> Failure {
    failure(FailureKind::NotFound, "the file was removed")
}

fn rewrites() -> Failure {
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
