//! The object on the receiving side: files written under temporary names, published when proved.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use lighthaul_io::blocks::Sink;
use lighthaul_io::disk::{OutputFile, Root};
use lighthaul_io::error::Error as World;

use crate::digest::{self, Digest, Taking};
use crate::error::{Code, Error};
use crate::manifest::{Entry, Kind, LARGE, Manifest};
use crate::source::Report;

/// Files kept open at a time.
const OPEN_MAX: usize = 64;
/// How long a writer waits for the manifest to say where bytes belong.
const PATIENCE: Duration = Duration::from_mins(1);
/// More files than this are synced by their file system as a whole.
const SYNC_EACH_MAX: usize = 8;

/// How a sink writes.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The digest of each file.
    pub digest: digest::Kind,
    /// Whether bytes must be on disk before a name appears.
    pub sync: bool,
    /// A number that makes temporary names unlike those of other transfers.
    pub transfer: u64,
}

/// Writes the files of a manifest, which may still be arriving.
#[derive(Debug)]
pub struct TreeSink {
    root: Root,
    target: PathBuf,
    settings: Settings,
    chunks: Receiver<Vec<Entry>>,
    manifest: Manifest,
    open: BTreeMap<usize, OutputFile>,
    files: BTreeMap<usize, Taking>,
    created: Vec<bool>,
    failure: Option<Error>,
}

/// A file that was not published, and why.
pub type Failure = (usize, Code, String);

impl TreeSink {
    /// A sink below `root`, which people know as `target`; learns the manifest from `chunks`.
    pub fn new(
        root: Root,
        target: PathBuf,
        settings: Settings,
        chunks: Receiver<Vec<Entry>>,
    ) -> Self {
        Self {
            root,
            target,
            settings,
            chunks,
            manifest: Manifest::default(),
            open: BTreeMap::new(),
            files: BTreeMap::new(),
            created: Vec::new(),
            failure: None,
        }
    }

    /// The manifest, as far as it has come.
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Why writing failed, if it did.
    pub const fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// Waits until the manifest says where byte `end` of the object is.
    fn learn(&mut self, end: u64) -> Result<(), Error> {
        while self.manifest.object_len() < end {
            match self.chunks.recv_timeout(PATIENCE) {
                Ok(entries) => self.admit(entries)?,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(Error::new(Code::TimedOut, "the manifest did not arrive"));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::new(Code::Protocol, "the manifest is too short"));
                }
            }
        }
        Ok(())
    }

    fn admit(&mut self, entries: Vec<Entry>) -> Result<(), Error> {
        for entry in entries {
            if entry.kind == Kind::Folder {
                self.root.make_folder(entry.path()).map_err(|error| {
                    let place = self.target.join(entry.path());
                    Error::file(Code::Open, "cannot make the folder", &place, &error)
                })?;
            }
            self.manifest
                .push(entry)
                .map_err(|_| Error::new(Code::Protocol, "the manifest is too large"))?;
            self.created.push(false);
        }
        Ok(())
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.learn(offset + bytes.len() as u64)?;
        let mut pieces = Vec::new();
        self.manifest.cut(offset, bytes.len(), |index, at, range| {
            pieces.push((index, at, range));
            Ok::<(), Error>(())
        })?;
        for (index, at, range) in pieces {
            self.piece(index, at, &bytes[range])?;
        }
        Ok(())
    }

    fn piece(&mut self, index: usize, at: u64, bytes: &[u8]) -> Result<(), Error> {
        let size = self.manifest.entries()[index].size();
        let kind = self.settings.digest;
        let taking = self
            .files
            .entry(index)
            .or_insert_with(|| Taking::new(kind, size));
        taking.take(at, bytes);
        let whole = taking.is_whole() && size < LARGE;
        let written = match self.file(index) {
            Ok(file) => file.write_at(bytes, at),
            Err(error) => return Err(self.closed("cannot create", index, &error)),
        };
        if whole {
            self.open.remove(&index);
        }
        written.map_err(|error| {
            let path = self.manifest.entries()[index].path();
            self.fault("cannot write", path, &error)
        })
    }

    /// The file of entry `index`, under its temporary name.
    fn file(&mut self, index: usize) -> io::Result<&mut OutputFile> {
        if !self.open.contains_key(&index) {
            while self.open.len() >= OPEN_MAX {
                self.open.pop_first();
            }
            let entry = &self.manifest.entries()[index];
            let path = temporary(entry.path(), self.settings.transfer, index);
            let file = if self.created[index] {
                self.root.reopen(&path)?
            } else {
                let file = self.root.create(&path)?;
                self.created[index] = true;
                if entry.size() >= LARGE {
                    file.allocate(entry.size())?;
                }
                file
            };
            self.open.insert(index, file);
        }
        self.open
            .get_mut(&index)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Brings all to disk, compares every file with what the sender says of it, and publishes those
    /// that agree. Answers the files that do not.
    pub fn publish(&mut self, reports: &BTreeMap<usize, Report>) -> Result<Vec<Failure>, Error> {
        let mut failures = Vec::new();
        let mut good = Vec::new();
        for index in 0..self.manifest.entries().len() {
            if matches!(self.manifest.entries()[index].kind, Kind::File(_)) {
                match self.prove(index, reports)? {
                    Ok(()) => good.push(index),
                    Err((code, why)) => failures.push((index, code, why)),
                }
            }
        }
        self.sync(&good)?;
        for index in good {
            if let Err(error) = self.name(index) {
                let path = self.manifest.entries()[index].path();
                let error = self.fault("cannot publish", path, &error);
                failures.push((index, error.code, error.text));
            }
        }
        self.links(&mut failures);
        self.folders()?;
        if self.settings.sync {
            self.root
                .sync()
                .map_err(|error| self.fault("cannot sync", Path::new(""), &error))?;
        }
        self.clean();
        Ok(failures)
    }

    /// Removes what has not been published.
    pub fn clean(&mut self) {
        self.open.clear();
        for index in 0..self.created.len() {
            if self.created[index] {
                let path = self.manifest.entries()[index].path();
                let path = temporary(path, self.settings.transfer, index);
                self.root.remove(&path).ok();
                self.created[index] = false;
            }
        }
    }

    /// Takes the rest of the manifest.
    pub fn learn_all(&mut self) -> Result<(), Error> {
        while let Ok(entries) = self.chunks.recv_timeout(PATIENCE) {
            self.admit(entries)?;
        }
        Ok(())
    }

    /// Compares file `index` with what the sender says of it.
    fn prove(
        &mut self,
        index: usize,
        reports: &BTreeMap<usize, Report>,
    ) -> Result<Result<(), (Code, String)>, Error> {
        let path = self.manifest.entries()[index].path().to_owned();
        let theirs = match reports.get(&index) {
            Some(Report::Failed(why)) => return Ok(Err((Code::Changed, why.clone()))),
            Some(Report::Digest(digest)) => Some(*digest),
            None if self.manifest.entries()[index].size() == 0 => None,
            None => return Err(Error::new(Code::Protocol, "the sender left out a digest")),
        };
        if theirs.is_none() {
            let made = self.file(index).map(|_| ());
            self.open.remove(&index);
            made.map_err(|error| self.closed("cannot create", index, &error))?;
            return Ok(Ok(()));
        }
        let ours = match self.files.get(&index).map(Taking::finish) {
            Some(Some(digest)) => Some(digest),
            _ => self
                .read_back(index)
                .map_err(|e| self.fault("cannot read back", &path, &e))?,
        };
        if ours == theirs {
            return Ok(Ok(()));
        }
        let text = format!(
            "{}: what arrived is not what was sent; nothing was published, copy it again",
            path.display()
        );
        Ok(Err((Code::Integrity, text)))
    }

    /// The digest of what is in the file, for kinds that could not follow the order of arrival.
    fn read_back(&mut self, index: usize) -> io::Result<Option<Digest>> {
        let size = self.manifest.entries()[index].size();
        let mut taking = Taking::new(self.settings.digest, size);
        let mut buffer = vec![0; 1 << 20];
        let file = self.file(index)?;
        let mut at = 0;
        while at < size {
            let len = (size - at).min(buffer.len() as u64) as usize;
            file.read_at(&mut buffer[..len], at)?;
            taking.take(at, &buffer[..len]);
            at += len as u64;
        }
        Ok(taking.finish())
    }

    fn sync(&mut self, good: &[usize]) -> Result<(), Error> {
        if !self.settings.sync {
            return Ok(());
        }
        if good.len() > SYNC_EACH_MAX {
            return self
                .root
                .sync()
                .map_err(|e| self.fault("cannot sync", Path::new(""), &e));
        }
        for index in good {
            let synced = self.file(*index).and_then(|file| file.sync());
            synced.map_err(|error| {
                let path = self.manifest.entries()[*index].path();
                self.fault("cannot sync", path, &error)
            })?;
        }
        Ok(())
    }

    fn name(&mut self, index: usize) -> io::Result<()> {
        let entry = self.manifest.entries()[index].clone();
        let file = self.file(index)?;
        file.set_mode(entry.mode)?;
        file.set_time(entry.seconds, entry.nanos)?;
        self.open.remove(&index);
        let from = temporary(entry.path(), self.settings.transfer, index);
        self.root.rename(&from, entry.path())?;
        self.created[index] = false;
        Ok(())
    }

    fn links(&mut self, failures: &mut Vec<Failure>) {
        for index in 0..self.manifest.entries().len() {
            let entry = self.manifest.entries()[index].clone();
            let Kind::Link(target) = &entry.kind else {
                continue;
            };
            let from = temporary(entry.path(), self.settings.transfer, index);
            let made = self
                .root
                .make_link(&from, OsStr::from_bytes(target))
                .and_then(|()| self.root.rename(&from, entry.path()))
                .and_then(|()| self.root.set_time(entry.path(), entry.seconds, entry.nanos));
            if let Err(error) = made {
                self.root.remove(&from).ok();
                let error = self.fault("cannot make the link", entry.path(), &error);
                failures.push((index, error.code, error.text));
            }
        }
    }

    /// Gives folders their modes and times, the deepest first, since filling one changes its time.
    fn folders(&mut self) -> Result<(), Error> {
        for index in (0..self.manifest.entries().len()).rev() {
            let entry = self.manifest.entries()[index].clone();
            if entry.kind != Kind::Folder {
                continue;
            }
            self.root
                .set_folder_mode(entry.path(), entry.mode)
                .and_then(|()| self.root.set_time(entry.path(), entry.seconds, entry.nanos))
                .map_err(|e| self.fault("cannot set mode and time of", entry.path(), &e))?;
        }
        Ok(())
    }

    /// Why entry `index` has no file to write to.
    fn closed(&self, what: &str, index: usize, error: &io::Error) -> Error {
        let path = self.manifest.entries()[index].path();
        Error::file(Code::Open, what, &self.target.join(path), error)
    }

    fn fault(&self, what: &str, path: &Path, error: &io::Error) -> Error {
        Error::file(Code::Io, what, &self.target.join(path), error)
    }
}

impl Sink for TreeSink {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), World> {
        self.put(offset, bytes).map_err(|error| {
            let text = error.text.clone();
            self.failure.get_or_insert(error);
            World::Store(text)
        })
    }
}

/// The name that entry `index` has until it is published: hidden, in the folder it will stay in.
fn temporary(path: &Path, transfer: u64, index: usize) -> PathBuf {
    path.with_file_name(format!(".lighthaul-{transfer:016x}-{index}"))
}
