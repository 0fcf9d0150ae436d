//! State that all connections of a session share, with the files and rights of the client.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lighthaul_fs::disk::InputFile;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_io::control::Control;
use lighthaul_session::error::{Error, FileAction};
use lighthaul_session::session::Session;
use rustix::fs::{FileType, fstat};

use crate::failure::{Failure, FailureKind};
use crate::message::FileVersion;

/// Maximum number of files that a session has open at a time.
pub const FILES_MAX: usize = 512;
/// Permission bits that a client can set.
pub(super) const MODE_MAX: u32 = 0o777;

/// Files and rights of a session.
#[derive(Debug)]
pub struct Scope {
    /// Part of the file system that can be reached.
    pub access: FileAccess,
    /// True if files may be changed.
    pub writable: bool,
    /// True if devices, FIFOs and sockets may be replaced or removed.
    pub special: bool,
}

impl Scope {
    /// Opens the file at `path` for reading.
    pub(super) fn open(&self, path: &Path) -> Result<(InputFile, FileVersion), Failure> {
        let failed = |error| Failure::of(FileAction::Open, path, &error);
        let check = |kind: FileType| {
            if kind.is_dir() {
                return Err(failed(io::ErrorKind::IsADirectory.into()));
            }
            if !kind.is_file() {
                let text = format!("cannot open {}: it is no file", path.display());
                return Err(Failure::new(FailureKind::Invalid, text));
            }
            Ok(())
        };
        // to open a FIFO or a device would already change it
        check(self.access.look_through(path).map_err(failed)?.kind)?;
        let file = self.access.file(path).map_err(failed)?;
        let stat = fstat(&file).map_err(|error| failed(error.into()))?;
        check(FileType::from_raw_mode(stat.st_mode))?;
        let version = FileVersion::from(file.version().map_err(failed)?);
        Ok((file, version))
    }
}

/// State that all connections of a session share.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub(super) session: &'a Session,
    pub(super) scope: Scope,
    /// True once the session ends.
    pub(super) over: AtomicBool,
    /// Number of open files.
    pub(super) files: AtomicUsize,
    /// Bytes that were read and written.
    pub(super) bytes: AtomicU64,
    controls: Mutex<Vec<Control>>,
}

impl<'a> Shared<'a> {
    /// Returns the state of a new session.
    pub(super) fn new(session: &'a Session, scope: Scope) -> Self {
        Self {
            session,
            scope,
            over: AtomicBool::new(false),
            files: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            controls: Mutex::default(),
        }
    }

    /// Fails if the session was halted.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.session.halt.check()
    }

    /// Returns true if the session has ended or was halted, so that no answer is wanted.
    pub(super) fn has_ended(&self) -> bool {
        self.over.load(Relaxed) || self.check().is_err()
    }

    fn controls(&self) -> MutexGuard<'_, Vec<Control>> {
        self.controls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps `control` until the end of the session. Returns false if that has come.
    pub(super) fn keep(&self, control: &Control) -> bool {
        self.controls().push(control.clone());
        !self.over.load(Relaxed)
    }

    /// Ends the threads of all connections.
    pub(super) fn end(&self) {
        self.over.store(true, Relaxed);
        for control in self.controls().drain(..) {
            control.close();
        }
    }
}
