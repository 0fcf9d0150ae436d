//! Checks of a complete file before it gets its final name, beyond the comparison of digests.

use std::path::{Path, PathBuf};

use lighthaul_copy::error::Fault;
use lighthaul_copy::thread_group::ThreadGroup;
use lighthaul_files::hash::HashRequest;
use lighthaul_fs::disk::Root;
use lighthaul_session::error::{Error, FileAction};

use super::device;
use super::entry_table::PendingFile;
use super::hashing::hashes_of;
use super::journal::missing;
use super::settings::Settings;

/// Checks that the user has asked for.
pub(super) struct Checks<'a> {
    threads: &'a ThreadGroup,
    /// Path of the root for messages.
    target: PathBuf,
    /// True if data is synced before files are published.
    pub(super) sync: bool,
    /// True if files are read back from the device.
    pub(super) read_back: bool,
    /// Expected hashes of the only file.
    expected: Vec<HashRequest>,
}

impl<'a> Checks<'a> {
    pub(super) fn new(threads: &'a ThreadGroup, target: PathBuf, settings: &Settings) -> Self {
        let options = &settings.options;
        // a dry run computes no hashes
        let expects = |asked: &&HashRequest| asked.expected.is_some() && options.dry_run.is_none();
        Self {
            threads,
            target,
            // another host publishes staged files, and must find their bytes
            sync: options.sync || options.verify_disk || options.stages(),
            read_back: options.verify_disk,
            expected: options.hash.iter().filter(expects).cloned().collect(),
        }
    }

    /// Returns true if complete files are read again before they are published.
    pub(super) const fn any(&self) -> bool {
        self.read_back || self.expects()
    }

    /// Returns true if hashes are expected.
    pub(super) const fn expects(&self) -> bool {
        !self.expected.is_empty()
    }

    /// Checks a complete file that still has its temporary name.
    pub(super) fn check(&self, root: &mut Root, file: &PendingFile) -> Result<(), Error> {
        if self.read_back {
            let checked = self.check_disk(root, file);
            checked.map_err(|error| self.unpublished(file, error, outcome(file)))?;
        }
        if self.expects() {
            let checked = self.expect(root, &file.temporary)?;
            checked.map_err(|error| self.unpublished(file, error, ""))?;
        }
        Ok(())
    }

    /// Fails if the file at `path`, which was in place before, differs from the expected hash.
    pub(super) fn check_unchanged(&self, root: &mut Root, path: PathBuf) -> Result<(), Error> {
        self.expect(root, &path)?.map_err(|error| {
            Fault::Unexpected {
                place: self.target.join(path),
                error,
            }
            .into()
        })
    }

    /// Reads a file back from its device.
    fn check_disk(&self, root: &mut Root, file: &PendingFile) -> Result<(), Error> {
        let digests = file.fill().digests.clone();
        let holes = missing(&file.entry.data(), file.entry.size());
        let check = || self.threads.check();
        device::check(root, &file.temporary, &digests, &holes, check)
    }

    /// Returns the result of comparing the file at `path` with the expected hashes. Fails if it
    /// cannot be read.
    fn expect(&self, root: &mut Root, path: &Path) -> Result<Result<(), Error>, Error> {
        let kinds: Vec<_> = self.expected.iter().map(|asked| asked.kind).collect();
        let hashed = hashes_of(self.threads, root, path, &kinds)?;
        let (_, hashes) = hashed
            .map_err(|error| Error::file(FileAction::ReadBack, &self.target.join(path), &error))?;
        let mut expected = self.expected.iter();
        Ok(expected.try_for_each(|asked| asked.check(&hashes)))
    }

    fn unpublished(&self, file: &PendingFile, error: Error, outcome: &'static str) -> Error {
        Fault::Unpublished {
            place: self.target.join(file.entry.path()),
            error,
            outcome,
        }
        .into()
    }
}

/// Returns the state of a file with wrong data, for a message.
pub(super) fn outcome(file: &PendingFile) -> &'static str {
    if file.is_in_place() {
        "; the file at the target is damaged; copy it again"
    } else {
        "; nothing was published; copy it again"
    }
}
