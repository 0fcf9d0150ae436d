//! Publisher: compares received data with the source, and renames complete files.
//!
//! [`Publisher`] joins each received object with the reports of the sender. A file whose ranges all agree gets its
//! metadata, is synced and renamed. The ranges of incomplete files are recorded in journals for a later run.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use lighthaul_copy::error::Fault;
use lighthaul_copy::report::Report;
use lighthaul_copy::thread_group::ThreadGroup;
use lighthaul_files::digest::Digest;
use lighthaul_files::manifest::Entry;
use lighthaul_files::object::Span;
use lighthaul_files::stage_log::Staging;
use lighthaul_files::temp_place::TempPlace;
use lighthaul_files::waiting_links::{LinkTarget, Name};
use lighthaul_files::writer_lock::WriterLock;
use lighthaul_fs::disk::Root;
use lighthaul_session::error::{Error, FileAction};
use lighthaul_session::fault::PeerFault;

use super::checks::{Checks, outcome};
use super::entry_table::{EntryTable, PendingFile, Settled};
use super::job::{Arrived, Job};
use super::journal::{Protection, Record};
use super::metadata::MetadataWriter;
use super::modification_check;
use super::object_digests::ObjectDigests;
use super::settings::{OpenTarget, Settings};
use super::unsynced::Unsynced;

/// Maximum number of digests of a file that are kept, unless the file is read back.
pub(super) const DIGESTS_MAX: usize = 1 << 16;
/// Interval at which ended directories are checked.
const LOOK: Duration = Duration::from_millis(50);

/// Thread that publishes files.
// fields: state of one thread
pub(crate) struct Publisher<'a> {
    threads: &'a ThreadGroup,
    pub(super) table: &'a EntryTable,
    pub(super) root: Root,
    /// Path of the root for messages.
    pub(super) target: PathBuf,
    metadata: &'a MetadataWriter<'a>,
    checks: Checks<'a>,
    /// Protection of the bytes on the network.
    pub(super) protection: Protection,
    temp_place: TempPlace,
    /// Lock on the root, which is released before the root gets its metadata.
    lock: Option<WriterLock>,
    /// Number and entry of the target directory, if it gets metadata of a source directory.
    top: Option<(u64, Entry)>,
    digests: ObjectDigests,
    /// Ranges from an earlier run, or from a basis, that equal the source.
    kept: Vec<Kept>,
    /// Files with ranges that other parts of a striped copy have compared.
    staged: Vec<Staged>,
    /// True if newer objects stay (`--update`), and if all objects stay (`--ignore-existing`).
    pub(super) keeps: (bool, bool),
    has_warned: bool,
}

/// File with ranges that other parts of a striped copy have compared, each with its digest.
type Staged = (Arc<PendingFile>, Vec<(Span, Digest)>);

/// Ranges that were not sent.
struct Kept {
    file: Arc<PendingFile>,
    ranges: Vec<Span>,
    /// Digest of all bytes of the ranges.
    digest: Digest,
    /// True if the journal does not have the ranges.
    is_new: bool,
}

impl<'a> Publisher<'a> {
    /// Creates a publisher below a root, with the root's path for messages and its lock.
    pub(crate) fn new(
        threads: &'a ThreadGroup,
        table: &'a EntryTable,
        (root, target, lock): OpenTarget,
        metadata: &'a MetadataWriter<'a>,
        (settings, temp_place): (&Settings, TempPlace),
    ) -> Self {
        Self {
            threads,
            table,
            root,
            metadata,
            checks: Checks::new(threads, target.clone(), settings),
            protection: settings.protection(),
            target,
            temp_place,
            lock,
            top: None,
            digests: ObjectDigests::default(),
            kept: Vec::new(),
            staged: Vec::new(),
            keeps: (settings.options.update, settings.options.skip.existing),
            has_warned: false,
        }
    }

    /// Warns once that an object store reports no checksums.
    pub(super) fn warn_unverified(&mut self) {
        if !std::mem::replace(&mut self.has_warned, true) {
            let place = self.target.display();
            let text = format!("the store of {place} reports no checksums of its objects");
            self.metadata.warn(text);
        }
    }

    /// Publishes files until no more can come, then finishes directories.
    pub(crate) fn run(&mut self, jobs: &Receiver<Job>) -> Result<(), Error> {
        loop {
            let next = jobs.recv_timeout(LOOK);
            let has_ended = matches!(next, Err(RecvTimeoutError::Disconnected));
            let step = self.threads.work.begin();
            // jobs that came while the disk was busy are handled together
            for job in next.ok().into_iter().chain(jobs.try_iter()) {
                self.take(job);
            }
            // verified data stay even if the copy fails, so that the next copy need not send them
            self.settle()?;
            drop(step);
            self.threads.check()?;
            if has_ended {
                break;
            }
        }
        while !self.table.is_closed() {
            self.threads.check()?;
            std::thread::park_timeout(LOOK);
        }
        let _step = self.threads.work.begin();
        if self.digests.has_unmatched() {
            return Err(PeerFault::Unexpected("the digest of a piece").into());
        }
        if !self.table.pending().is_empty() {
            return Err(PeerFault::Unexpected("the data of a file").into());
        }
        self.check_expected()?;
        self.link();
        self.leave();
        self.finish_top();
        let has_synced = self.checks.sync;
        if has_synced {
            self.sync(&Unsynced::FileSystem)?;
        }
        self.table.placed.sync(|| {
            // the sender removes its files even if the copy need not sync
            let unsynced = (!has_synced).then_some(&Unsynced::FileSystem);
            unsynced.map_or(Ok(()), |unsynced| self.sync(unsynced))
        })
    }

    /// Adds the content of a job.
    fn take(&mut self, job: Job) {
        match job {
            Job::Arrived(arrived) => {
                let number = arrived.object.number;
                self.digests.add_object(number, arrived);
            }
            Job::Reports(number, reports) => {
                self.digests.add_reports(number, reports);
            }
            Job::Kept(file, span, digest) => self.kept.push(Kept {
                file,
                ranges: vec![span],
                digest,
                is_new: false,
            }),
            Job::Copied(file, ranges, digest) => self.kept.push(Kept {
                file,
                ranges,
                digest,
                is_new: true,
            }),
            Job::Staged(file, ranges) => self.staged.push((file, ranges)),
            Job::Failed(number, error) => self.fail(number, error),
        }
    }

    /// Renames complete files, and records the ranges of incomplete files in their journals.
    fn settle(&mut self) -> Result<(), Error> {
        let (mut whole, mut parts) = (Vec::new(), Vec::new());
        for (arrived, reports) in self.digests.take_matched() {
            if reports.len() != arrived.digests.len() {
                return Err(PeerFault::Unexpected("the digest of a piece").into());
            }
            self.compare_object(&arrived, reports, &mut whole, &mut parts);
        }
        for kept in std::mem::take(&mut self.kept) {
            let file = kept.file;
            let ranges = if kept.is_new {
                kept.ranges.clone()
            } else {
                Vec::new()
            };
            let Some(is_whole) = self.prove(&file, kept.ranges, kept.digest) else {
                continue;
            };
            if !is_whole || self.checks.any() {
                let parts_of = |range| (Arc::clone(&file), range);
                parts.extend(ranges.into_iter().map(parts_of));
            }
            if is_whole {
                whole.push(file);
            }
        }
        for (file, ranges) in std::mem::take(&mut self.staged) {
            whole.extend(file.add_staged(ranges).then_some(file));
        }
        let touched = untouched_by_failure(&whole, &parts);
        // before a new mode may prevent it
        let unsynced = self.unsynced(&touched)?;
        if self.checks.any() {
            self.sync(&unsynced)?;
        }
        for (file, span) in &parts {
            self.note(file, *span)?;
        }
        let (objects, mut whole): (Vec<_>, Vec<_>) =
            whole.into_iter().partition(|file| file.upload.is_some());
        whole.retain(|file| self.passes(file));
        for file in &whole {
            self.set_temp_metadata(file);
        }
        self.sync(&unsynced)?;
        for file in whole {
            self.publish(&file);
        }
        self.publish_objects(&objects);
        self.link();
        self.leave();
        if self.table.placed.is_full() {
            let sync = || self.sync(&Unsynced::FileSystem);
            self.table.placed.sync(sync)?;
        }
        Ok(())
    }

    /// Compares an object with the reports of the sender. Adds complete files to `whole`, and
    /// ranges of others to `parts`.
    fn compare_object(
        &mut self,
        arrived: &Arrived,
        reports: Vec<Report>,
        whole: &mut Vec<Arc<PendingFile>>,
        parts: &mut Vec<(Arc<PendingFile>, Span)>,
    ) {
        for (index, report) in reports.into_iter().enumerate() {
            let file = &arrived.object.files[index];
            let piece = arrived.object.layout.pieces()[index];
            let span = (piece.offset, piece.end());
            let compared = self.compare(file, arrived.digests[index], report);
            match compared.map(|digest| self.prove(file, vec![span], digest)) {
                Ok(Some(is_whole)) => {
                    if is_whole {
                        whole.push(Arc::clone(file));
                    }
                    if !is_whole || self.checks.any() {
                        parts.push((Arc::clone(file), span));
                    }
                }
                Ok(None) => {}
                Err(error) => self.fail(file.number, error),
            }
        }
    }

    /// Records that ranges of a file equal the source. Returns true if the file is complete, and
    /// none if it has failed.
    fn prove(&self, file: &PendingFile, ranges: Vec<Span>, digest: Digest) -> Option<bool> {
        let bytes = ranges.iter().map(|(from, till)| till - from).sum();
        let mut fill = file.fill();
        fill.uncompared_bytes = fill.uncompared_bytes.saturating_sub(bytes);
        if self.checks.read_back || fill.digests.len() < DIGESTS_MAX {
            fill.digests.push((ranges, digest));
        }
        (!fill.failed).then_some(fill.uncompared_bytes == 0)
    }

    /// Records a range in the journal of a file, for a later run.
    fn note(&self, file: &PendingFile, span: Span) -> Result<(), Error> {
        let protection = self.protection;
        let noted = match &mut file.fill().journal {
            Some(journal) => journal.append(Record { span, protection }),
            None => Ok(()),
        };
        noted.map_err(|error| self.fault(FileAction::WriteJournal, file.entry.path(), &error))
    }

    /// Publishes a complete file.
    fn publish(&mut self, file: &PendingFile) {
        if file.fill().failed {
            return;
        }
        let published = match self.table.stage.own() {
            Some(log) => self.record(file, log),
            None => self.name(file),
        };
        match published {
            Ok(()) => self
                .table
                .settle(file.number, &file.entry, Ok(Settled::Now)),
            Err(error) => self.fail(file.number, error),
        }
    }

    /// Checks a complete file. If the check was interrupted, the file stays for a later run.
    fn passes(&mut self, file: &PendingFile) -> bool {
        let Err(error) = self.checks.check(&mut self.root, file) else {
            return true;
        };
        if self.threads.check().is_ok() {
            self.fail(file.number, error);
        }
        false
    }

    /// Fails if the only file was in place before, and differs from the expected hash.
    fn check_expected(&mut self) -> Result<(), Error> {
        if self.checks.expects() && self.table.counts().unchanged > 0 {
            let path = self.table.expected();
            self.checks.check_unchanged(&mut self.root, path)?;
        }
        Ok(())
    }

    fn compare(
        &self,
        file: &PendingFile,
        ours: Option<Digest>,
        report: Report,
    ) -> Result<Digest, Error> {
        match report {
            Report::Failed { code, why } => Err(PeerFault::reported(code, why).into()),
            Report::Digest(theirs) if ours == Some(theirs) || file.fill().failed => Ok(theirs),
            Report::Digest(_) => Err(Fault::Unpublished {
                place: self.target.join(file.entry.path()),
                error: Fault::Differs.into(),
                outcome: outcome(file),
            }
            .into()),
        }
    }

    /// Records that entry `number` has failed.
    pub(super) fn fail(&mut self, number: u64, error: Error) {
        let Some(file) = self.table.find(number) else {
            return;
        };
        let mut fill = file.fill();
        fill.failed = true;
        if fill.created && file.owns_temporary() {
            self.root.remove(&file.temporary).ok();
        }
        if let Some(_locked) = fill.journal.take() {
            self.root.remove(&file.journal).ok();
        }
        fill.lock = None;
        drop(fill);
        self.table.settle(number, &file.entry, Err(error));
    }

    /// Sets the metadata of a file with a temporary name, so that the metadata is synced with the data. A file with its
    /// final name gets its metadata after its data is synced, as it would look complete before.
    fn set_temp_metadata(&mut self, file: &PendingFile) {
        if !file.owns_temporary() || !self.checks.sync || file.fill().finished {
            return;
        }
        let set = self.set_metadata(file);
        let noted = set.and_then(|()| modification_check::note(&mut self.root, file));
        if let Err(error) = noted {
            let error = self.fault(FileAction::Publish, file.entry.path(), &error);
            self.fail(file.number, error);
        }
    }

    /// Sets mode, time and other metadata of a complete file, if no other process has changed it.
    fn set_metadata(&mut self, file: &PendingFile) -> io::Result<()> {
        let (root, entry) = (&mut self.root, &file.entry);
        modification_check::check(root, file)?;
        if !self.metadata.set(root, &file.temporary, entry)? {
            let output = root.reopen(&file.temporary)?;
            output.set_mode(entry.mode)?;
            output.set_time(entry.seconds, entry.nanos)?;
        }
        file.fill().finished = true;
        Ok(())
    }

    /// Renames a complete file.
    fn name(&mut self, file: &PendingFile) -> Result<(), Error> {
        let checked = if file.fill().finished {
            modification_check::check(&mut self.root, file)
        } else {
            self.set_metadata(file)
        };
        let named = checked.and_then(|()| self.rename(file));
        named.map_err(|error| self.fault(FileAction::Publish, file.entry.path(), &error))
    }

    fn rename(&mut self, file: &PendingFile) -> io::Result<()> {
        if let Some(backups) = self.table.backups.get().filter(|_| !file.is_in_place()) {
            backups.keep(&mut self.root, file.entry.path())?;
        }
        self.root.rename(&file.temporary, file.entry.path())?;
        let mut fill = file.fill();
        fill.lock = None;
        // removed while it is locked, so that no other copy can lock a journal without a name
        if let Some(_locked) = fill.journal.take() {
            self.root.remove(&file.journal)?;
        }
        Ok(())
    }

    /// Creates the hard links whose files are in place.
    fn link(&mut self) {
        while let Some((name, first)) = self.table.take_ready_link() {
            let linked = self.link_to(&name, first);
            self.table.settle(name.number, &name.entry, linked);
        }
    }

    fn link_to(&mut self, name: &Name, first: LinkTarget) -> Result<Settled, Error> {
        let path = name.entry.path();
        let first = first.map_err(|code| Fault::LinkedFailed {
            place: self.target.join(path),
            code,
        })?;
        let first = Path::new(OsStr::from_bytes(&first));
        let kept = match self.table.backups.get() {
            Some(backups) => backups.keep(&mut self.root, path),
            None => Ok(()),
        };
        let linked = kept.and_then(|()| link(&mut self.root, first, path, &name.temporary));
        linked.map_err(|error| {
            self.fault(FileAction::HardLink(self.target.join(first)), path, &error)
        })
    }

    /// Sets modes and times of directories whose contents are in place; earlier, new contents would change the time.
    fn leave(&mut self) {
        while let Some((number, entry)) = self.table.take_ended_folder() {
            if entry.is_top() {
                self.top = Some((number, entry));
                continue;
            }
            let set = self
                .finish(&entry)
                .map_err(|error| self.fault(FileAction::SetMetadata, entry.path(), &error));
            self.table
                .settle(number, &entry, set.map(|()| Settled::Now));
        }
    }

    /// Sets the metadata of the target directory, when its contents no longer change. A failure is
    /// only a warning, since the directory may have another owner.
    fn finish_top(&mut self) {
        // the part that publishes finishes the directory
        if let Some(lock) = self.lock.take()
            && self.table.stage.own().is_none()
        {
            lock.release();
        }
        for (name, _locked) in self.table.stage.take() {
            self.root.remove(&name).ok();
        }
        let Some((number, entry)) = self.top.take() else {
            return;
        };
        if let Err(error) = self.finish(&entry) {
            let place = self.target.display();
            let text = format!("cannot set mode and time of {place}: {error}");
            self.metadata.warn(text);
        }
        self.table.settle(number, &entry, Ok(Settled::Now));
    }

    fn finish(&mut self, folder: &Entry) -> io::Result<()> {
        self.clear(folder.path());
        let (root, path) = (&mut self.root, folder.path());
        if !self.metadata.set(root, path, folder)? {
            // the time first, since the mode may prevent access by name
            root.set_time(path, folder.seconds, folder.nanos)?;
            root.set_folder_mode(path, folder.mode)?;
        }
        Ok(())
    }

    /// Removes the directory for temporary files in `folder`, if it is empty.
    fn clear(&mut self, folder: &Path) {
        if let Some(apart) = self.temp_place.folder(folder) {
            self.root.remove_folder(&apart).ok();
        }
    }

    /// Removes files that will not be published, except files that a later run can resume.
    pub(crate) fn clean(&mut self) {
        let _step = self.threads.work.begin();
        for file in self.table.pending() {
            let mut fill = file.fill();
            let data_len = file.entry.data_len();
            let proved = data_len - fill.uncompared_bytes.min(data_len);
            // the logs of a striped copy stay, too
            let is_kept = file.resumable && (fill.created && proved > 0 || !fill.held.is_empty());
            if is_kept || file.staging == Staging::Adopted {
                continue;
            }
            // other threads must not create it again
            fill.failed = true;
            if fill.created && file.owns_temporary() {
                self.root.remove(&file.temporary).ok();
            }
            if let Some(_locked) = fill.journal.take() {
                self.root.remove(&file.journal).ok();
            }
            if let Some(folder) = file.entry.path().parent() {
                self.clear(folder);
            }
        }
        self.clear(Path::new(""));
    }

    /// Returns the files to sync before they are renamed.
    fn unsynced(&mut self, files: &[Arc<PendingFile>]) -> Result<Unsynced, Error> {
        if !self.checks.sync {
            return Ok(Unsynced::Nothing);
        }
        let unsynced = Unsynced::of(&mut self.root, files);
        unsynced.map_err(|(path, error)| self.fault(FileAction::Sync, &path, &error))
    }

    /// Syncs files to disk.
    fn sync(&self, unsynced: &Unsynced) -> Result<(), Error> {
        let synced = unsynced.sync(&self.root);
        synced.map_err(|(path, error)| self.fault(FileAction::Sync, &path, &error))
    }

    pub(super) fn fault(&self, action: FileAction, path: &Path, error: &io::Error) -> Error {
        Error::file(action, &self.target.join(path), error)
    }
}

/// Returns the files that have not failed, each once.
fn untouched_by_failure(
    whole: &[Arc<PendingFile>],
    parts: &[(Arc<PendingFile>, Span)],
) -> Vec<Arc<PendingFile>> {
    let parts = parts.iter().map(|(file, _)| file);
    let files = whole.iter().chain(parts);
    let files = files.filter(|file| file.upload.is_none() && !file.fill().failed);
    let mut files: Vec<_> = files.cloned().collect();
    files.sort_unstable_by_key(|file| file.number);
    files.dedup_by_key(|file| file.number);
    files
}

/// Makes `path` a hard link to the file `first`, through a temporary name.
fn link(root: &mut Root, first: &Path, path: &Path, temporary: &Path) -> io::Result<Settled> {
    let (one, other) = (root.look(first)?, root.look(path)?);
    if one
        .zip(other)
        .is_some_and(|(one, other)| one.inode == other.inode)
    {
        return Ok(Settled::Before);
    }
    root.hard_link(first, temporary)?;
    let renamed = root.rename(temporary, path);
    // rename leaves it if it failed, or if both names became the same file meanwhile
    root.remove(temporary).ok();
    renamed.map(|()| Settled::Now)
}
