//! Temporary files of a receiver, which get their final names when they are published.
//!
//! A large file is resumed from an earlier run, if no other user can have changed it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use lighthaul_copy::budget::{Slot, Slots};
use lighthaul_copy::error::Fault;
use lighthaul_copy::thread_group::ThreadGroup;
use lighthaul_files::object::LARGE;
use lighthaul_files::stage_log::Staging;
use lighthaul_fs::disk::{OutputFile, Root};
use lighthaul_fs::meta::Meta;
use lighthaul_fs::sparse;
use lighthaul_fs::version::{Look, Version};
use lighthaul_session::error::{Error, FileAction};
use rustix::fs::FileType;

use super::claims::Claims;
use super::journal::{Journal, Subject, clipped, missing, within_file};
use super::pending_file::{Fill, PendingFile};
use super::transfer::Transfer;

/// Access to temporary files below a root.
#[derive(Debug)]
pub(crate) struct TempFiles {
    pub(crate) root: Root,
    /// Path of the root for messages.
    pub(crate) target: PathBuf,
    /// See [`Subject`].
    pub(crate) boot: u64,
    /// True if zeros are not written.
    pub(crate) sparse: bool,
    pub(crate) threads: Arc<ThreadGroup>,
    /// Slots for open journals and locks.
    pub(crate) journals: Slots,
    pub(crate) claims: Arc<Claims>,
}

/// Part of a file that one opening of the file writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// All of the file, which no other thread opens.
    Whole,
    /// A range.
    Part,
}

/// Maximum number of times that a file is opened again because another process has replaced it.
const ATTEMPTS_MAX: usize = 100;

/// Operation on a temporary file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attempt {
    /// Creates the file, or opens the file of an earlier run.
    Create,
    /// Writes to the existing file.
    Write,
    /// Reads the written bytes back.
    ReadBack,
}

impl TempFiles {
    /// Creates the temporary files of a copy below a root, whose path for messages is `target`.
    pub(super) fn new(
        transfer: &Transfer<'_>,
        root: &Root,
        target: PathBuf,
    ) -> Result<Self, Error> {
        let failed = |e| Error::file(FileAction::Open, &target, &e);
        Ok(Self {
            root: root.another().map_err(failed)?,
            target,
            boot: transfer.boot,
            threads: Arc::clone(&transfer.threads),
            journals: transfer.settings.budget.journals(),
            sparse: transfer.options().sparse,
            claims: Arc::clone(&transfer.claims),
        })
    }

    /// Returns another value for the same files.
    pub(crate) fn another(&self) -> io::Result<Self> {
        Ok(Self {
            root: self.root.another()?,
            target: self.target.clone(),
            threads: Arc::clone(&self.threads),
            journals: self.journals.clone(),
            claims: Arc::clone(&self.claims),
            ..*self
        })
    }

    /// Opens or creates the temporary file of `file`. Returns none if that file has failed. A file
    /// that cannot be opened has failed.
    pub(crate) fn open(
        &mut self,
        file: &PendingFile,
        share: Share,
    ) -> Result<Option<OutputFile>, Error> {
        let holds = file.resumable || file.is_in_place() && share == Share::Part;
        // without the lock, since this may wait
        let begins = holds && !file.fill().created;
        let slot = begins
            .then(|| self.journals.take(&self.threads))
            .transpose();
        let mut fill = file.fill();
        if fill.failed {
            return Ok(None);
        }
        let opened = if fill.created {
            self.reopen(file, &fill, share)
        } else {
            slot.and_then(|slot| self.begin(file, &mut fill, (share, slot)))
        };
        fill.created |= opened.is_ok();
        fill.failed = opened.is_err();
        opened
            .map(Some)
            .map_err(|error| self.fault(Attempt::Create, file, &error))
    }

    /// Creates the temporary file, and notes its version if several threads write to it.
    fn begin(
        &mut self,
        file: &PendingFile,
        fill: &mut Fill,
        (share, slot): (Share, Option<Slot>),
    ) -> io::Result<OutputFile> {
        let (journal, lock) = if file.resumable {
            (slot, None)
        } else {
            (None, slot)
        };
        let output = self.create(file, fill, journal)?;
        if share == Share::Part {
            fill.version = Some(output.version()?);
            if file.is_in_place() {
                fill.lock = Some((output.hold()?, lock));
            }
        }
        Ok(output)
    }

    /// Opens a temporary file again. Fails if it is not the file that was written so far. A file
    /// under its final name must also have the same content.
    fn reopen(&mut self, file: &PendingFile, fill: &Fill, share: Share) -> io::Result<OutputFile> {
        let output = self.root.reopen(&file.temporary)?;
        let is_alone = file.is_in_place() && share == Share::Whole;
        if is_alone {
            output.lock()?;
        }
        let (there, known) = (output.version()?, fill.version);
        let is_same = |known: Version| known.inode == there.inode && (!is_alone || known == there);
        if known.is_some_and(is_same) {
            Ok(output)
        } else {
            Err(replaced())
        }
    }

    /// Returns the error of an operation on a file.
    pub(crate) fn fault(&self, attempt: Attempt, file: &PendingFile, error: &io::Error) -> Error {
        let place = self.target.join(file.entry.path());
        if error.kind() == io::ErrorKind::WouldBlock {
            return Fault::Busy(place).into();
        }
        let action = match attempt {
            Attempt::Create => FileAction::Create,
            Attempt::Write => FileAction::Write,
            Attempt::ReadBack => FileAction::ReadBack,
        };
        Error::file(action, &place, error)
    }

    /// Creates the temporary file, or resumes that of an earlier run.
    fn create(
        &mut self,
        file: &PendingFile,
        fill: &mut Fill,
        slot: Option<Slot>,
    ) -> io::Result<OutputFile> {
        let size = file.entry.size();
        if let Some(folder) = file.apart() {
            self.root.make_folder(folder)?;
        }
        if file.staging == Staging::Shared {
            return open_staged(&mut self.root, file);
        }
        let sparse = self.sparse || file.entry.data.is_some();
        if let Some(slot) = slot {
            return self.resume(file, fill, (sparse, slot));
        }
        let output = self.start(file)?;
        if sparse {
            sparse::set_len(&output, size)?;
        } else if size >= LARGE {
            allocate(&output, size).inspect_err(|_| remove(&mut self.root, file))?;
        }
        Ok(output)
    }

    /// Resumes a file with a journal, or starts the journal.
    fn resume(
        &mut self,
        file: &PendingFile,
        fill: &mut Fill,
        (sparse, slot): (bool, Slot),
    ) -> io::Result<OutputFile> {
        let locked = self.root.lock(&file.journal)?;
        let subject = Subject {
            look: file.look(),
            boot: self.boot,
        };
        let mut output = if fill.held.is_empty() {
            self.start(file)?
        } else {
            let noted = Journal::read(&locked, subject)?;
            let there = self.root.look(&file.temporary)?;
            let there = there.filter(|there| is_resumable(file, there));
            let noted = there.map(|there| within_file(noted, there.size));
            let is_same = noted.as_ref() == Some(&fill.held);
            let output = match is_same {
                true if file.is_in_place() => self.existing(file)?,
                true => Some(self.root.reopen(&file.temporary)?),
                false => None,
            };
            let text = "another copy has changed the partial file";
            output.ok_or_else(|| io::Error::other(text))?
        };
        let room = if sparse {
            make_holes(file, fill, &mut output)
        } else {
            allocate(&output, file.entry.size())
        };
        if let Err(error) = room {
            // the partial file stays for a later run with more space
            if fill.held.is_empty() {
                remove(&mut self.root, file);
                self.root.remove(&file.journal).ok();
            }
            return Err(error);
        }
        let held = clipped(&fill.held, &fill.compared);
        fill.journal = Some(Journal::begin((locked, slot), subject, &held)?);
        Ok(output)
    }

    /// Creates the temporary file. A file that is written under its final name keeps its inode, and
    /// is emptied, unless this copy needs that inode for another name.
    fn start(&mut self, file: &PendingFile) -> io::Result<OutputFile> {
        if file.is_in_place()
            && let Some(output) = self.existing(file)?
        {
            sparse::set_len(&output, 0)?;
            return Ok(output);
        }
        if file.is_in_place() || file.resumable {
            self.root.remove(&file.temporary).ok();
        }
        let output = self.root.create(&file.temporary)?;
        if file.is_in_place() {
            output.lock()?;
        }
        Ok(output)
    }

    /// Opens and locks the existing file under the final name. Returns none if the name needs a new
    /// file.
    fn existing(&mut self, file: &PendingFile) -> io::Result<Option<OutputFile>> {
        let mut locked: Option<OutputFile> = None;
        for _ in 0..ATTEMPTS_MAX {
            let there = self.root.look(&file.temporary)?;
            let regular = |there: &Meta| there.kind == FileType::RegularFile;
            let Some(there) = there.filter(regular) else {
                return Ok(None);
            };
            if there.names > 1 && !self.claims.write(there.inode, file.number) {
                return Ok(None);
            }
            // another process may have replaced the file before it was locked
            if let Some(output) = locked.take()
                && output.version()?.inode == there.inode
            {
                return Ok(Some(output));
            }
            let output = self.root.reopen(&file.temporary)?;
            output.lock()?;
            locked = Some(output);
        }
        Err(replaced())
    }
}

/// Returns the error of a file that another process has replaced.
pub(crate) fn replaced() -> io::Error {
    io::Error::other("another process has replaced the file while it was written")
}

/// Returns true if the temporary file `there` can be from an earlier run: it is a regular file of this user without
/// other hard links. The last two conditions do not apply to a file that is written under its final name.
pub(crate) fn is_resumable(file: &PendingFile, there: &Meta) -> bool {
    let is_private = there.is_ours() && there.names == 1;
    there.kind == FileType::RegularFile && (file.is_in_place() || is_private)
}

/// Sets the length of a file, and makes holes of all ranges that are not compared. New data is
/// written into holes.
fn make_holes(file: &PendingFile, fill: &Fill, output: &mut OutputFile) -> io::Result<()> {
    let size = file.entry.size();
    sparse::set_len(output, size)?;
    if fill.held.is_empty() {
        return Ok(());
    }
    let gaps = missing(&fill.compared, size).into_iter();
    gaps.map(|(from, till)| from..till)
        .try_for_each(|gap| sparse::punch(output, gap))
}

/// Sets the length of a file, and allocates its space, so that a full disk is detected early.
fn allocate(output: &OutputFile, size: u64) -> io::Result<()> {
    sparse::set_len(output, size)?;
    output.allocate(size)
}

/// Removes the temporary file, unless it has its final name.
fn remove(root: &mut Root, file: &PendingFile) {
    if !file.is_in_place() {
        root.remove(&file.temporary).ok();
    }
}

/// Opens or creates a staged file, which other parts of the copy may write at the same time.
pub(super) fn open_staged(root: &mut Root, file: &PendingFile) -> io::Result<OutputFile> {
    let size = file.entry.size();
    let output = match root.create(&file.temporary) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let there = root.look(&file.temporary)?;
            if !there.is_some_and(|there| is_private(&there)) {
                return Err(io::Error::other(
                    "the staged file is not a file of this user only",
                ));
            }
            root.reopen(&file.temporary)?
        }
        created => created?,
    };
    // the same size as in every other part
    if output.version()?.look.size < size {
        sparse::set_len(&output, size)?;
    }
    Ok(output)
}

/// Returns true for a regular file of this user without other hard links.
pub(crate) fn is_private(there: &Meta) -> bool {
    there.kind == FileType::RegularFile && there.is_ours() && there.names == 1
}

impl PendingFile {
    /// Returns the version of the source at the time of the listing.
    pub(crate) const fn look(&self) -> Look {
        Look {
            size: self.entry.size(),
            seconds: self.entry.seconds,
            nanos: self.entry.nanos,
        }
    }

    /// Returns the file, to be written together with other parts of a striped copy.
    pub(crate) fn staged(mut self) -> Self {
        self.staging = Staging::Shared;
        self
    }

    /// Records that the temporary file exists with version `version`.
    pub(crate) fn adopt(&mut self, version: Version) {
        self.staging = Staging::Adopted;
        let mut fill = self.fill();
        fill.created = true;
        fill.version = Some(version);
    }

    /// Returns true if only this copy needs the temporary file, so that it may remove the file.
    pub(crate) fn owns_temporary(&self) -> bool {
        !self.is_in_place() && self.staging != Staging::Shared
    }
}
