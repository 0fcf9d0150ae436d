//! Files that are written: new files under a temporary name, existing files at their end.
//!
//! ```text
//! create: temporary file --- write, truncate ---> commit: check, sync, rename, sync directory
//! append: the file itself --- write at its end --> commit: check, sync
//! ```
//!
//! After its first commit, a new file can be written at its end, like any other. A lock file beside it keeps a second
//! writer out, also one of another daemon. Programs of the host do not know the lock: a file that has its name is
//! written with `O_APPEND`, so that no byte of such a program is overwritten.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lighthaul_files::temp_names::written;
use lighthaul_fs::disk::{OutputFile, Root};
use lighthaul_fs::meta::Meta;
use lighthaul_session::error::FileAction;
use rustix::fs::{fstat, ftruncate};

use crate::failure::{Failure, FailureKind};
use crate::message::{FileVersion, RangeDigest};
use crate::server::folder::{check_replaced, parent};
use crate::server::shared::{MODE_MAX, Scope, Shared};

/// Permission bits of a new file if the client gives none.
const MODE: u32 = 0o644;
/// Bytes that are read at a time to compute a digest.
const BUFFER_BYTES: usize = 1 << 20;

/// Properties of a new file.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewFile {
    /// Permission bits, if the client gives them.
    pub(super) mode: Option<u32>,
    /// True if the path must not exist.
    pub(super) is_new: bool,
}

/// File that one client writes.
#[derive(Debug)]
pub(super) struct Writer {
    root: Root,
    path: PathBuf,
    name: PathBuf,
    /// Properties of a file that has no name yet.
    unnamed: Option<NewFile>,
    output: OutputFile,
    /// Size in bytes.
    size: u64,
    _lock: File,
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.unnamed.is_some() {
            self.root.remove(&temporary(&self.name)).ok();
        }
        // while it is locked
        self.root.remove(&lock_file(&self.name)).ok();
    }
}

impl Writer {
    /// Creates a temporary file for `path`.
    pub(super) fn create(
        scope: &Scope,
        path: &Path,
        new: NewFile,
    ) -> Result<(Self, FileVersion), Failure> {
        let failed = |error: io::Error| Failure::of(FileAction::Create, path, &error);
        check_replaced(scope, path)?;
        let (mut root, name) = parent(scope, path).map_err(failed)?;
        let there = root.look(name).map_err(failed)?;
        match there {
            Some(_) if new.is_new => return Err(failed(io::ErrorKind::AlreadyExists.into())),
            Some(meta) if meta.kind.is_dir() => {
                return Err(failed(io::ErrorKind::IsADirectory.into()));
            }
            _ => {}
        }
        let lock = root.lock(&lock_file(name)).map_err(|e| busy(path, &e))?;
        let unnamed = temporary(name);
        // a daemon that was killed may have left one
        root.remove(&unnamed).ok();
        let output = root.create(&unnamed).map_err(|error| {
            root.remove(&lock_file(name)).ok();
            failed(error)
        })?;
        let mode = new.mode.or_else(|| mode_of(there.as_ref()));
        let writer = Self {
            root,
            path: path.to_owned(),
            name: name.to_owned(),
            unnamed: Some(NewFile { mode, ..new }),
            output,
            size: 0,
            _lock: lock,
        };
        let version = writer.version(FileAction::Create)?;
        Ok((writer, version))
    }

    /// Opens the file at `path` to write at its end.
    pub(super) fn append(
        scope: &Scope,
        path: &Path,
        size: Option<u64>,
    ) -> Result<(Self, FileVersion), Failure> {
        let failed = |error: io::Error| Failure::of(FileAction::Open, path, &error);
        let (mut root, name) = parent(scope, path).map_err(failed)?;
        let there = root.look(name).map_err(failed)?;
        match there {
            None => return Err(failed(io::ErrorKind::NotFound.into())),
            Some(meta) if meta.kind.is_dir() => {
                return Err(failed(io::ErrorKind::IsADirectory.into()));
            }
            Some(meta) if !meta.kind.is_file() => {
                let text = format!("cannot append to {}: it is no file", path.display());
                return Err(Failure::new(FailureKind::Invalid, text));
            }
            Some(_) => {}
        }
        let lock = root.lock(&lock_file(name)).map_err(|e| busy(path, &e))?;
        let output = root.open_to_append(name).map_err(|error| {
            root.remove(&lock_file(name)).ok();
            failed(error)
        })?;
        let mut writer = Self {
            root,
            path: path.to_owned(),
            name: name.to_owned(),
            unnamed: None,
            output,
            size: 0,
            _lock: lock,
        };
        let version = writer.version(FileAction::Open)?;
        writer.size = version.size;
        if size.is_some_and(|size| size != version.size) {
            return Err(writer.other_size(version.size));
        }
        Ok((writer, version))
    }

    /// Returns the writer of a handle, which no other thread uses meanwhile.
    pub(super) fn lock(writer: &Mutex<Self>) -> MutexGuard<'_, Self> {
        writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes `bytes` at `offset`.
    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), Failure> {
        let end = offset.checked_add(bytes.len() as u64);
        let end = end.filter(|end| i64::try_from(*end).is_ok());
        let end = end.ok_or_else(|| self.failed(FileAction::Write, io::ErrorKind::InvalidInput))?;
        if self.unnamed.is_none() {
            let size = self.version(FileAction::Write)?.size;
            if offset != self.size || size != self.size {
                return Err(self.other_size(size));
            }
        }
        let written = self.output.write_at(bytes, offset);
        written.map_err(|error| Failure::of(FileAction::Write, &self.path, &error))?;
        self.size = self.size.max(end);
        if self.unnamed.is_none() {
            // another program may have written meanwhile, and these bytes are after its own
            let size = self.version(FileAction::Write)?.size;
            if size != self.size {
                let path = self.path.display();
                let text = format!(
                    "another program has written to {path} meanwhile; these bytes are in it, after those of that program"
                );
                return Err(Failure::new(FailureKind::Changed, text));
            }
        }
        Ok(())
    }

    /// Changes the size of a file that has no name yet.
    pub(super) fn truncate(&mut self, size: u64) -> Result<(), Failure> {
        if self.unnamed.is_none() {
            return if size == self.size {
                Ok(())
            } else {
                Err(self.other_size(self.size))
            };
        }
        ftruncate(&self.output, size)
            .map_err(|error| Failure::of(FileAction::Write, &self.path, &error.into()))?;
        self.size = size;
        Ok(())
    }

    /// Makes all writes durable, and gives a new file its name.
    pub(super) fn commit(
        &mut self,
        shared: &Shared<'_>,
        size: u64,
        digest: Option<RangeDigest>,
    ) -> Result<FileVersion, Failure> {
        if size != self.size {
            return Err(self.other_size(self.size));
        }
        if let Some(expected) = digest {
            self.compare(shared, expected)?;
        }
        let path = self.path.clone();
        let failed = |action, error: &io::Error| Failure::of(action, &path, error);
        if let Some(new) = self.unnamed {
            let mode = new.mode.unwrap_or(MODE) & MODE_MAX;
            let set = self.output.set_mode(mode);
            set.map_err(|error| failed(FileAction::SetMetadata, &error))?;
        }
        let synced = self.output.sync();
        synced.map_err(|error| failed(FileAction::Sync, &error))?;
        if let Some(new) = self.unnamed {
            check_replaced(&shared.scope, &self.path)?;
            let named = self.name_it(new.is_new);
            named.map_err(|error| failed(FileAction::Publish, &error))?;
            self.unnamed = None;
            let appends = self.output.append_only();
            appends.map_err(|error| failed(FileAction::Publish, &error))?;
            let synced = self.root.sync_folder();
            synced.map_err(|error| failed(FileAction::Sync, &error))?;
        } else if self.has_no_name()? {
            let path = self.path.display();
            let text = format!("cannot write {path}: it was removed or replaced while it was open");
            return Err(Failure::new(FailureKind::Changed, text));
        }
        self.version(FileAction::Publish)
    }

    /// Returns true if no name leads to the file, so that its bytes are lost once it is closed.
    fn has_no_name(&self) -> Result<bool, Failure> {
        let stat = fstat(&self.output);
        let stat =
            stat.map_err(|error| Failure::of(FileAction::Publish, &self.path, &error.into()))?;
        Ok(stat.st_nlink == 0)
    }

    fn name_it(&mut self, is_new: bool) -> io::Result<()> {
        let temporary = temporary(&self.name);
        if is_new {
            let mut source = self.root.another()?;
            return self
                .root
                .rename_new_from(&mut source, &temporary, &self.name);
        }
        self.root.rename(&temporary, &self.name)
    }

    /// Fails if the bytes from an offset to the end have another BLAKE3 hash.
    fn compare(&self, shared: &Shared<'_>, (from, expected): RangeDigest) -> Result<(), Failure> {
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut at = from;
        while at < self.size {
            if shared.has_ended() {
                return Err(self.failed(FileAction::ReadBack, io::ErrorKind::Interrupted));
            }
            let left = usize::try_from(self.size - at).unwrap_or(BUFFER_BYTES);
            let piece = &mut buffer[..left.min(BUFFER_BYTES)];
            let read = self.output.read_at(piece, at);
            read.map_err(|error| Failure::of(FileAction::ReadBack, &self.path, &error))?;
            hasher.update(piece);
            at += piece.len() as u64;
        }
        if *hasher.finalize().as_bytes() == expected {
            return Ok(());
        }
        let path = self.path.display();
        let text = format!("cannot publish {path}: it differs from what the client sent");
        Err(Failure::new(FailureKind::Corrupt, text))
    }

    fn version(&self, action: FileAction) -> Result<FileVersion, Failure> {
        let version = self.output.version().map(FileVersion::from);
        version.map_err(|error| Failure::of(action, &self.path, &error))
    }

    fn failed(&self, action: FileAction, kind: io::ErrorKind) -> Failure {
        Failure::of(action, &self.path, &kind.into())
    }

    fn other_size(&self, size: u64) -> Failure {
        let path = self.path.display();
        let text = format!(
            "cannot write {path}: it has {size} bytes, and only a new file can be written elsewhere than at its end"
        );
        Failure::new(FailureKind::Changed, text)
    }
}

fn temporary(name: &Path) -> PathBuf {
    let [temporary, _] = written(name);
    temporary
}

fn lock_file(name: &Path) -> PathBuf {
    let [_, lock_file] = written(name);
    lock_file
}

/// Returns the permission bits that a replaced file passes on.
fn mode_of(there: Option<&Meta>) -> Option<u32> {
    there
        .filter(|meta| meta.kind.is_file())
        .map(|meta| meta.mode)
}

/// Returns the failure to lock the name of `path`.
fn busy(path: &Path, error: &io::Error) -> Failure {
    if error.kind() != io::ErrorKind::WouldBlock {
        return Failure::of(FileAction::Create, path, error);
    }
    let path = path.display();
    let text = format!("cannot write {path}: another program is writing it; wait until it is done");
    Failure::new(FailureKind::Busy, text)
}
