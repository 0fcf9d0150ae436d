//! Temporary files of a receiver, which get their final names when they are published.
//!
//! A large file is resumed from an earlier run, if no other user can have changed it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use lighthaul_files::object::LARGE;
use lighthaul_fs::disk::{OutputFile, Root};
use lighthaul_fs::meta::Meta;
use lighthaul_fs::sparse;
use lighthaul_session::error::{Code, Error};
use rustix::fs::FileType;

use super::entry_table::{Fill, PendingFile};
use super::journal::{Journal, Subject, merged, missing, within, within_file};
use crate::budget::{Slot, Slots};
use crate::thread_group::ThreadGroup;

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
    /// Slots for open journals.
    pub(crate) journals: Slots,
}

/// Operation on a temporary file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attempt {
    /// Creates it, or opens that of an earlier run.
    Create,
    /// Writes to it.
    Write,
    /// Reads the written bytes back.
    ReadBack,
}

impl TempFiles {
    /// Returns another value for the same files.
    pub(crate) fn another(&self) -> io::Result<Self> {
        Ok(Self {
            root: self.root.another()?,
            target: self.target.clone(),
            threads: Arc::clone(&self.threads),
            journals: self.journals.clone(),
            ..*self
        })
    }

    /// Opens or creates the temporary file of `file`. Returns none if that file has failed. A file
    /// that cannot be opened has failed.
    pub(crate) fn open(&mut self, file: &PendingFile) -> Result<Option<OutputFile>, Error> {
        // without the lock, since this may wait
        let begins = file.resumable && !file.fill().created;
        let slot = begins
            .then(|| self.journals.take(&self.threads))
            .transpose();
        let mut fill = file.fill();
        if fill.failed {
            return Ok(None);
        }
        let opened = if fill.created {
            self.reopen(file, &fill)
        } else {
            let output = slot.and_then(|slot| self.create(file, &mut fill, slot));
            output.and_then(|output| {
                fill.inode = Some(output.inode()?);
                Ok(output)
            })
        };
        fill.created |= opened.is_ok();
        fill.failed = opened.is_err();
        opened
            .map(Some)
            .map_err(|error| self.fault(Attempt::Create, file, &error))
    }

    /// Opens a temporary file again. Fails if it is not the file that was written so far.
    fn reopen(&mut self, file: &PendingFile, fill: &Fill) -> io::Result<OutputFile> {
        let output = self.root.reopen(&file.temporary)?;
        if fill.inode == Some(output.inode()?) {
            Ok(output)
        } else {
            Err(replaced())
        }
    }

    /// Returns the error of an operation on a file.
    pub(crate) fn fault(&self, attempt: Attempt, file: &PendingFile, error: &io::Error) -> Error {
        let place = self.target.join(file.entry.path());
        if error.kind() == io::ErrorKind::WouldBlock {
            let text = format!(
                "cannot write {}: another copy is writing it",
                place.display()
            );
            return Error::new(Code::Open, text);
        }
        let (code, what) = match attempt {
            Attempt::Create => (Code::Open, "cannot create"),
            Attempt::Write => (Code::Io, "cannot write"),
            Attempt::ReadBack => (Code::Io, "cannot read back"),
        };
        Error::file(code, what, &place, error)
    }

    /// Creates the temporary file, or resumes that of an earlier run.
    fn create(
        &mut self,
        file: &PendingFile,
        fill: &mut Fill,
        slot: Option<Slot>,
    ) -> io::Result<OutputFile> {
        let (size, root) = (file.entry.size(), &mut self.root);
        if let Some(folder) = file.apart() {
            root.make_folder(folder)?;
        }
        let sparse = self.sparse || file.entry.data.is_some();
        if let Some(slot) = slot {
            return self.resume(file, fill, (sparse, slot));
        }
        let output = start(root, file)?;
        if sparse {
            sparse::stretch(&output, size)?;
        } else if size >= LARGE {
            allocate(&output, size).inspect_err(|_| remove(root, file))?;
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
        let root = &mut self.root;
        let locked = root.lock(&file.journal)?;
        let subject = Subject {
            look: file.look(),
            boot: self.boot,
        };
        let mut output = if fill.held.is_empty() {
            start(root, file)?
        } else {
            let noted = Journal::read(&locked, subject)?;
            let there = root.look(&file.temporary)?;
            let there = there.filter(|there| is_resumable(file, there));
            let noted = there.map(|there| within_file(noted, there.size));
            if noted.as_ref() != Some(&fill.held) {
                let text = "another copy has changed the partial file";
                return Err(io::Error::other(text));
            }
            root.reopen(&file.temporary)?
        };
        let room = if sparse {
            make_holes(file, fill, &mut output)
        } else {
            allocate(&output, file.entry.size())
        };
        if let Err(error) = room {
            // the partial file stays for a later run with more space
            if fill.held.is_empty() {
                remove(root, file);
                root.remove(&file.journal).ok();
            }
            return Err(error);
        }
        fill.journal = Some(Journal::begin((locked, slot), subject, &fill.held)?);
        Ok(output)
    }
}

/// Returns the error of a file that another process has replaced.
pub(crate) fn replaced() -> io::Error {
    io::Error::other("another process has replaced the file while it was written")
}

/// Returns true if the temporary file `there` can be from an earlier run of this user, and no other
/// user has a name for it. These conditions do not apply to a file that is written under its final
/// name.
pub(crate) fn is_resumable(file: &PendingFile, there: &Meta) -> bool {
    let is_private = there.is_ours() && there.names == 1;
    there.kind == FileType::RegularFile && (file.is_in_place() || is_private)
}

/// Creates the temporary file. A file that is written under its final name keeps its inode, and is
/// emptied.
fn start(root: &mut Root, file: &PendingFile) -> io::Result<OutputFile> {
    let path = &file.temporary;
    if file.is_in_place() {
        let there = root.look(path)?;
        if there.is_some_and(|there| there.kind == FileType::RegularFile) {
            let output = root.reopen(path)?;
            sparse::stretch(&output, 0)?;
            return Ok(output);
        }
    }
    if file.is_in_place() || file.resumable {
        root.remove(path).ok();
    }
    root.create(path)
}

/// Sets the length of a file, and makes holes of all ranges that no earlier run left. New data are
/// written into holes.
fn make_holes(file: &PendingFile, fill: &Fill, output: &mut OutputFile) -> io::Result<()> {
    let size = file.entry.size();
    sparse::stretch(output, size)?;
    if fill.held.is_empty() {
        return Ok(());
    }
    let held = merged(fill.held.iter().map(|record| record.span).collect());
    // where the source has a hole now, nothing is sent or compared
    let held = within(&held, &file.entry.data());
    let gaps = missing(&held, size).into_iter();
    gaps.map(|(from, till)| from..till)
        .try_for_each(|gap| sparse::punch(output, gap))
}

/// Sets the length of a file, and allocates its space, so that a full disk shows now.
fn allocate(output: &OutputFile, size: u64) -> io::Result<()> {
    sparse::stretch(output, size)?;
    output.allocate(size)
}

/// Removes the temporary file, unless it has its final name.
fn remove(root: &mut Root, file: &PendingFile) {
    if !file.is_in_place() {
        root.remove(&file.temporary).ok();
    }
}
