//! Staged files of a striped copy: files that several parts write together, and one part publishes.
//!
//! ```text
//! parts of the copy --> staged files, one stage log each --> part that publishes --> final names
//! ```
//!
//! All parts write the same staged file, whose name depends on the version of the source. No part truncates or removes
//! it. The part that publishes waits until no other part can write, since each keeps its log locked. Then it compares
//! all ranges of the logs with the source, requests those that are missing, and renames the files.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_copy::error::Fault;
use lighthaul_copy::message::WantedFile;
use lighthaul_copy::thread_group::CHECK_INTERVAL;
use lighthaul_files::manifest::{Entry, EntryKind};
use lighthaul_files::object::{Span, within};
use lighthaul_files::options::{Action, Planned, Striped};
use lighthaul_files::temp_names::{PREFIX, STAGE_LOG};
use lighthaul_fs::meta::Meta;
use lighthaul_fs::sparse;
use lighthaul_fs::version::{Look, Version};
use lighthaul_io::host::wait::pause;
use lighthaul_session::error::{Error, FileAction};
use rustix::fs::FileType;

use super::entry_checker::{EntryChecker, Place};
use super::entry_table::{PendingFile, Settled};
use super::journal::{Record, digest_for, longest, merged, missing};
use super::stage_log::{StageLog, look as look_at, read};
use super::staged_files::usable;
use super::temp_files::is_private;

/// Longest wait for another part of the copy that still writes: longer than NFS keeps the lock of a dead host.
const LOCK_TIMEOUT: Duration = Duration::from_mins(2);

impl EntryChecker<'_> {
    /// Reads the stage logs at the target, and starts that of this part.
    pub(super) fn begin_staging(&self, place: &mut Place) -> Result<(), Error> {
        let options = self.transfer.options();
        let Some(striped) = options.striped.filter(|_| options.dry_run.is_none()) else {
            return Ok(());
        };
        let _step = self.transfer.threads.work.begin();
        let failed = |place: &Place, e: &io::Error| {
            Error::file(FileAction::WriteJournal, &place.target_folder.folder, e)
        };
        let publishes = !options.stages();
        let names = place.root.names(Path::new(""), PREFIX);
        let names = names.map_err(|e| failed(place, &e))?;
        let is_log = |name: &PathBuf| {
            name.as_os_str()
                .as_encoded_bytes()
                .ends_with(STAGE_LOG.as_bytes())
        };
        let until = self.transfer.session.clock.now() + LOCK_TIMEOUT;
        let mut locked = Vec::new();
        for name in names.into_iter().map(PathBuf::from).filter(is_log) {
            let log = self.read_log(place, &name, (striped, until))?;
            locked.extend(log.filter(|_| publishes).map(|file| (name, file)));
        }
        if publishes {
            self.transfer.table.stage.keep(locked);
            return Ok(());
        }
        let root = place.root.another();
        let log = root.and_then(|root| StageLog::create(root, striped.run));
        let log = log.map_err(|e| failed(place, &e))?;
        self.transfer.table.stage.begin(log);
        Ok(())
    }

    /// Reads a log, and returns it locked, except that of a part of this run that still writes. Waits until `until` for
    /// all other parts and copies.
    fn read_log(
        &self,
        place: &mut Place,
        name: &Path,
        (striped, until): (Striped, Instant),
    ) -> Result<Option<File>, Error> {
        loop {
            // other users may create files in a directory like /tmp
            let there = place.root.look(name);
            if !there.is_ok_and(|there| there.is_some_and(|there| is_private(&there))) {
                return Ok(None);
            }
            match place.root.lock(name) {
                Ok(mut file) => {
                    let (run, ranges) = read(&mut file).map_err(|e| {
                        Error::file(FileAction::Read, &place.target_folder.folder, &e)
                    })?;
                    place.staged.add(run == striped.run, ranges);
                    return Ok(Some(file));
                }
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    let place = place.target_folder.folder.join(name);
                    return Err(Error::file(FileAction::Open, &place, &error));
                }
                Err(_) => {}
            }
            if self.transfer.options().stages()
                && let Ok((run, ranges)) = place.root.read(name).and_then(|open| look_at(&open))
                && run == striped.run
            {
                place.staged.add(true, ranges);
                return Ok(None);
            }
            self.transfer.threads.check()?;
            if self.transfer.session.clock.now() >= until {
                return Err(Fault::Busy(place.target_folder.folder.clone()).into());
            }
            pause(CHECK_INTERVAL);
        }
    }

    /// Removes staged files that this copy does not need.
    pub(super) fn clear_staged(&self, place: &mut Place) {
        if place.staged.is_empty() {
            return;
        }
        for range in self.transfer.table.stage.ranges() {
            if place.staged.has(&range) {
                let path = Path::new(OsStr::from_bytes(&range.path));
                let staged = self.transfer.temp_place.staged(path, range.look);
                place.root.remove(&staged).ok();
            }
        }
    }

    /// Handles an entry of a part that stages files. Directories are created, and files are requested. The part that
    /// publishes handles all other entries.
    pub(super) fn stage_entry(
        &self,
        place: &mut Place,
        number: u64,
        entry: &Entry,
    ) -> Result<Option<WantedFile>, Error> {
        match entry.kind {
            EntryKind::File(_) => {
                self.await_reports()?;
                Ok(self.stage(place, number, entry))
            }
            EntryKind::Folder => {
                let path = entry.path();
                let there = Self::look(place, entry)?;
                let made = match there {
                    None => place.root.make_folder(path),
                    Some(there) if there.kind == FileType::Directory => place.root.open_up(path),
                    Some(_) => Err(io::ErrorKind::NotADirectory.into()),
                };
                made.map_err(|error| place.fault(FileAction::CreateFolder, entry, &error))?;
                self.transfer.table.settle(number, entry, Ok(Settled::Now));
                Ok(None)
            }
            EntryKind::Link(_) | EntryKind::FolderEnd => {
                self.transfer.table.settle(number, entry, Ok(Settled::Now));
                Ok(None)
            }
        }
    }

    /// Returns the request for a file. What parts of a striped copy have staged is compared instead of sent.
    pub(super) fn take_staged_or_want(
        &self,
        place: &mut Place,
        number: u64,
        entry: &Entry,
    ) -> WantedFile {
        let adopted = self.adopt(place, number, entry);
        adopted.unwrap_or_else(|NotStaged| self.want(place, number, entry))
    }

    /// Returns the request for the ranges of a file that this part stages.
    fn stage(&self, place: &mut Place, number: u64, entry: &Entry) -> Option<WantedFile> {
        self.transfer.table.itemize(number, staged_report(entry));
        let look = look(entry);
        let temporary = self.transfer.temp_place.staged(entry.path(), look);
        let staged = place.staged.of(&entry.path, look);
        let usable = if staged_file(place, &temporary, entry).is_some() {
            usable(staged)
        } else {
            usable(Vec::new())
        };
        let size = entry.size();
        let proven = merged(usable.proven.iter().map(|range| range.span).collect());
        let left = within(&missing(&proven, size), &entry.data());
        if left.is_empty() {
            self.transfer.table.settle(number, entry, Ok(Settled::Now));
            return None;
        }
        let names = (temporary, PathBuf::new());
        let pending = PendingFile::new(number, entry.clone(), names, false).staged();
        Some(self.request(pending, &left, &usable.hints))
    }

    /// Adopts a staged file, and requests the comparison of all its ranges and the bytes of what is missing. Nothing is
    /// believed: a source that keeps its size and time may have changed between two parts, and records of two runs may
    /// be about one file. Fails if nothing of the file is staged.
    fn adopt(
        &self,
        place: &mut Place,
        number: u64,
        entry: &Entry,
    ) -> Result<WantedFile, NotStaged> {
        let look = look(entry);
        let staged = place.staged.take(&entry.path, look);
        let data = entry.data();
        if staged.is_empty() || data.is_empty() {
            return Err(NotStaged);
        }
        let temporary = self.transfer.temp_place.staged(entry.path(), look);
        staged_file(place, &temporary, entry).ok_or(NotStaged)?;
        let hints = usable(
            staged
                .into_iter()
                .map(|(_, range)| (false, range))
                .collect(),
        )
        .hints;
        let names = (temporary, PathBuf::new());
        let mut pending = PendingFile::new(number, entry.clone(), names, false);
        let holes = missing(&data, entry.size());
        let version = punch(place, &pending, &holes).map_err(|_| NotStaged)?;
        pending.adopt(version);
        Ok(self.request(pending, &data, &hints))
    }

    /// Adds a file to the table, with its ranges in `left`. Those in `hints` are compared instead of sent.
    fn request(&self, pending: PendingFile, left: &[Span], hints: &[Record]) -> WantedFile {
        let size = pending.entry.size();
        let digest = digest_for(hints, self.transfer.options().digest);
        let there = longest(merged(hints.iter().map(|record| record.span).collect()));
        let held = within(&there, left);
        let owed = within(&missing(&there, size), left);
        pending.expect(&owed);
        pending.expect_digests(&held, digest, Vec::new());
        let number = pending.number;
        self.transfer.table.expect(pending);
        let is_whole = held.is_empty() && owed == [(0, size)];
        WantedFile {
            number,
            send: (!is_whole).then_some(owed),
            held,
            digest,
            basis: None,
        }
    }
}

/// Nothing of a file is staged.
struct NotStaged;

/// Makes holes where the source has holes. Returns the version of the file.
fn punch(place: &mut Place, pending: &PendingFile, holes: &[Span]) -> io::Result<Version> {
    let mut output = place.root.reopen(&pending.temporary)?;
    for (from, till) in holes {
        sparse::punch(&mut output, *from..*till)?;
    }
    output.version()
}

/// Returns the metadata of the staged file of `entry`, if it exists and is private to this user.
fn staged_file(place: &mut Place, staged: &Path, entry: &Entry) -> Option<Meta> {
    let there = place.root.look(staged).ok()??;
    (is_private(&there) && there.size == entry.size()).then_some(there)
}

/// Returns the version of the source at the time of the listing.
pub(super) const fn look(entry: &Entry) -> Look {
    Look {
        size: entry.size(),
        seconds: entry.seconds,
        nanos: entry.nanos,
    }
}

/// Returns the report that the data of `entry` is staged; `kept` is its start.
fn staged_report(entry: &Entry) -> Planned {
    let data = entry.data();
    let from = data.first().map_or(0, |(from, _)| *from);
    let till = data.last().map_or(from, |(_, till)| *till);
    Planned {
        action: Action::Create,
        path: entry.path.clone(),
        bytes: till - from,
        kept: from,
        why: String::new(),
        item: None,
    }
}
