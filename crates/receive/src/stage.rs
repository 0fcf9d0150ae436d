//! Staged files of a striped copy: files that several parts write together, and one part publishes.
//!
//! ```text
//! parts of the copy --> staged files, one stage log each --> part that publishes --> final names
//! ```
//!
//! All parts write the same staged file, whose name depends on the version of the source. No part truncates or removes
//! it. The part that publishes waits until no other part can write, since each keeps its log locked. A part that begins
//! later finds the log of the part that publishes, and ends. Then it renames the files whose ranges are all proven by
//! the logs. It requests the ranges that are missing.

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
use lighthaul_files::stage_log::{
    LogOwner, RangeState, StageLog, StagedRange, create, look as look_at, owner, read,
};
use lighthaul_files::temp_names::{PREFIX, STAGE_LOG};
use lighthaul_fs::disk::OutputFile;
use lighthaul_fs::meta::Meta;
use lighthaul_fs::sparse;
use lighthaul_fs::version::{Look, Version};
use lighthaul_io::crypto::identity::random_octets;
use lighthaul_io::host::wait::pause;
use lighthaul_session::error::{Error, FileAction};
use rustix::fs::FileType;

use super::entry_checker::{EntryChecker, Place};
use super::entry_table::{PendingFile, Settled};
use super::job::Job;
use super::journal::{Record, digest_for, longest, merged, missing};
use super::staged_files::{LoggedRange, StagedFiles, Usable, proven_by_run, staged_by_run};
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
        let run = striped.run;
        let publishes = !options.stages();
        let until = self.transfer.session.clock.now() + LOCK_TIMEOUT;
        let failed = |folder: PathBuf| {
            move |error: io::Error| Error::file(FileAction::WriteJournal, &folder, &error)
        };
        let failed = failed(place.target_folder.folder.clone());
        let mut locked = Vec::new();
        if publishes {
            // parts that begin later must find it
            let own = create(&mut place.root, LogOwner { run, publishes });
            locked.push(own.map_err(&failed)?);
        }
        loop {
            for name in logs(place).map_err(&failed)? {
                if locked.iter().all(|(own, _)| *own != name) {
                    let log = self.read_log(place, &name, (striped, until))?;
                    locked.extend(log.filter(|_| publishes).map(|file| (name, file)));
                }
            }
            if publishes {
                self.transfer.table.stage.keep(locked);
                return Ok(());
            }
            let root = place.root.another();
            let log = root.and_then(|root| StageLog::create(root, run));
            let log = log.map_err(&failed)?;
            // a part that began meanwhile sees this log, or is seen here
            match others(place, log.name(), run).map_err(&failed)? {
                Others::None => {
                    self.transfer.table.stage.begin(log);
                    return Ok(());
                }
                Others::Copy if self.transfer.session.clock.now() < until => {}
                Others::Copy | Others::Publisher => {
                    return Err(Fault::Busy(place.target_folder.folder.clone()).into());
                }
            }
            drop(log);
            self.transfer.threads.check()?;
            let [random] = random_octets();
            pause(CHECK_INTERVAL + Duration::from_millis(random.into()));
            place.staged = StagedFiles::default();
        }
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
                return match place.root.read(name).and_then(|open| owner(&open)) {
                    Ok(Some(owner)) if owner.run == striped.run => {
                        let place = place.target_folder.folder.join(name);
                        Err(Fault::OtherUser(place).into())
                    }
                    Ok(_) | Err(_) => Ok(None),
                };
            }
            match place.root.lock(name) {
                Ok(mut file) => {
                    let log = read(&mut file).map_err(|e| {
                        Error::file(FileAction::Read, &place.target_folder.folder, &e)
                    })?;
                    if let Some((owner, ranges)) = log {
                        place.staged.add(owner.run == striped.run, ranges);
                    }
                    return Ok(Some(file));
                }
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    let place = place.target_folder.folder.join(name);
                    return Err(Error::file(FileAction::Open, &place, &error));
                }
                Err(_) => {}
            }
            if self.transfer.options().stages()
                && let Ok(Some((owner, ranges))) =
                    place.root.read(name).and_then(|open| look_at(&open))
                && owner.run == striped.run
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

    /// Writes to disk which ranges this part begins, so that a loss of power leaves them doubtful.
    pub(super) fn sync_stage_log(&self, place: &Place) -> Result<(), Error> {
        let Some(log) = self.transfer.table.stage.own() else {
            return Ok(());
        };
        let _step = self.transfer.threads.work.begin();
        let folder = &place.target_folder.folder;
        log.sync()
            .map_err(|error| Error::file(FileAction::WriteJournal, folder, &error))
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
                self.stage(place, number, entry)
            }
            EntryKind::Folder => {
                let path = entry.path();
                let there = Self::look(place, entry)?;
                let made = match there {
                    None => place.root.make_folder_for(path, entry.mode),
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

    /// Publishes a file if parts of a striped copy have staged it. Otherwise returns the request for what is missing.
    pub(super) fn take_staged_or_want(
        &self,
        place: &mut Place,
        number: u64,
        entry: &Entry,
    ) -> Option<WantedFile> {
        let look = look(entry);
        let staged = place.staged.take(&entry.path, look);
        if self.transfer.options().striped.is_none() {
            return Some(self.want(place, number, entry));
        }
        let temporary = self.transfer.temp_place.staged(entry.path(), look);
        let adopted = self.adopt(place, (number, entry), (&temporary, &staged));
        adopted.unwrap_or_else(|NotStaged| {
            place.root.remove(&temporary).ok();
            Some(self.want(place, number, entry))
        })
    }

    /// Returns the request for the ranges of a file that this part stages.
    fn stage(
        &self,
        place: &mut Place,
        number: u64,
        entry: &Entry,
    ) -> Result<Option<WantedFile>, Error> {
        self.transfer.table.itemize(number, staged_report(entry));
        let look = look(entry);
        let temporary = self.transfer.temp_place.staged(entry.path(), look);
        let usable = staged_file(place, &temporary, entry).map_or_else(Usable::default, |there| {
            let staged = place.staged.of(&entry.path, look);
            staged_by_run(&staged, entry.mark, there.version())
        });
        let left = within(&missing(&usable.spans(), entry.size()), &entry.data());
        if left.is_empty() {
            self.transfer.table.settle(number, entry, Ok(Settled::Now));
            return Ok(None);
        }
        let begun = |span: &Span| StagedRange {
            path: entry.path.clone(),
            look,
            mark: entry.mark,
            span: *span,
            state: RangeState::Begun,
        };
        if let Some(log) = self.transfer.table.stage.own() {
            let noted = log.append(&left.iter().map(begun).collect::<Vec<_>>());
            noted.map_err(|error| place.fault(FileAction::WriteJournal, entry, &error))?;
        }
        let names = (temporary, PathBuf::new());
        let pending = PendingFile::new(number, entry.clone(), names, false).staged();
        Ok(Some(self.request(pending, &left, &usable.hints)))
    }

    /// Publishes the staged file `temporary`, or requests what is missing. Returns none if the file is complete.
    fn adopt(
        &self,
        place: &mut Place,
        (number, entry): (u64, &Entry),
        (temporary, staged): (&Path, &[LoggedRange]),
    ) -> Result<Option<WantedFile>, NotStaged> {
        let there = staged_file(place, temporary, entry);
        there.filter(|_| !staged.is_empty()).ok_or(NotStaged)?;
        let output = place.root.reopen(temporary).map_err(|_| NotStaged)?;
        let there = output.version().map_err(|_| NotStaged)?;
        let mut usable = proven_by_run(staged, entry.mark, there);
        usable.keep_longest();
        let (size, data) = (entry.size(), entry.data());
        let left = within(&missing(&usable.spans(), size), &data);
        let names = (temporary.to_owned(), PathBuf::new());
        let mut pending = PendingFile::new(number, entry.clone(), names, false);
        let version = punch(output, &missing(&data, size), there).map_err(|_| NotStaged)?;
        pending.adopt(version);
        let wanted = self.request(pending, &left, &usable.hints);
        if let Some(file) = self.transfer.table.find(number) {
            // a publisher that has stopped has reported the reason
            self.jobs.send(Job::Staged(file, usable.proven)).ok();
        }
        Ok((!left.is_empty()).then_some(wanted))
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

/// A staged file cannot be used.
struct NotStaged;

/// Returns the names of the stage logs in the target directory.
fn logs(place: &mut Place) -> io::Result<Vec<PathBuf>> {
    let mut names = place.root.names(Path::new(""), PREFIX)?;
    names.retain(|name| name.as_encoded_bytes().ends_with(STAGE_LOG.as_bytes()));
    Ok(names.into_iter().map(PathBuf::from).collect())
}

/// Other parts that a part must not work beside.
enum Others {
    None,
    /// A part of another copy.
    Copy,
    /// The part that publishes this copy.
    Publisher,
}

/// Looks for other parts, besides the one with the log `own` of the copy `run`.
fn others(place: &mut Place, own: &Path, run: [u8; 16]) -> io::Result<Others> {
    let mut found = Others::None;
    for name in logs(place)? {
        let there = place.root.look(&name)?;
        if name == own || !there.is_some_and(|there| is_private(&there)) {
            continue;
        }
        let Ok(open) = place.root.read(&name) else {
            continue;
        };
        match owner(&open)? {
            Some(owner) if owner.run == run && owner.publishes => return Ok(Others::Publisher),
            Some(owner) if owner.run == run => {}
            Some(_) | None => {
                let lock = place.root.lock(&name);
                if lock.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                    found = Others::Copy;
                }
            }
        }
    }
    Ok(found)
}

/// Makes holes in a file of version `there`, where the source has `holes`. Returns the version of the file.
fn punch(mut output: OutputFile, holes: &[Span], there: Version) -> io::Result<Version> {
    if holes.is_empty() {
        return Ok(there);
    }
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
