//! Temporary files: the files that a receiver writes, under the names that they have until they are published. A large
//! one goes on with what an earlier run left, if nobody else can have had a hand in it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use lighthaul_io::fs::disk::{OutputFile, Root};
use lighthaul_io::fs::meta::Meta;
use lighthaul_io::fs::sparse;
use rustix::fs::FileType;

use super::journal::{Journal, Subject, merged, missing, within, within_file};
use super::ledger::{Fill, Pending};
use crate::budget::{Slot, Slots};
use crate::crew::Crew;
use crate::error::{Code, Error};
use crate::object::LARGE;

/// Opens temporary files below a root.
#[derive(Debug)]
pub(crate) struct TempFiles {
    pub(crate) root: Root,
    /// The path that people know the root by.
    pub(crate) target: PathBuf,
    /// See [`Subject`].
    pub(crate) boot: u64,
    /// Zeros are not written.
    pub(crate) sparse: bool,
    pub(crate) crew: Arc<Crew>,
    /// Slots for open journals.
    pub(crate) journals: Slots,
}

impl TempFiles {
    /// Another value for the same files.
    pub(crate) fn another(&self) -> io::Result<Self> {
        Ok(Self {
            root: self.root.another()?,
            target: self.target.clone(),
            crew: Arc::clone(&self.crew),
            journals: self.journals.clone(),
            ..*self
        })
    }

    /// The temporary file of `file`, made if need be; nothing if that file has failed. A file that cannot be opened has
    /// failed from then on.
    pub(crate) fn open(&mut self, file: &Pending) -> Result<Option<OutputFile>, Error> {
        // others are heard of while this waits
        let begins = file.resumable && !file.fill().created;
        let slot = begins.then(|| self.journals.take(&self.crew)).transpose();
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
            .map_err(|error| self.fault("cannot create", file, &error))
    }

    /// Opens a temporary file again, which must be the file that was written so far.
    fn reopen(&mut self, file: &Pending, fill: &Fill) -> io::Result<OutputFile> {
        let output = self.root.reopen(&file.temporary)?;
        if fill.inode == Some(output.inode()?) {
            Ok(output)
        } else {
            Err(replaced())
        }
    }

    /// The failure to do `what` to a file.
    pub(crate) fn fault(&self, what: &str, file: &Pending, error: &io::Error) -> Error {
        let place = self.target.join(file.entry.path());
        if error.kind() == io::ErrorKind::WouldBlock {
            let text = format!("{}: another transfer is writing it", place.display());
            return Error::new(Code::Open, text);
        }
        let code = if what == "cannot create" {
            Code::Open
        } else {
            Code::Io
        };
        Error::file(code, what, &place, error)
    }

    /// Makes the temporary file, or goes on with one that an earlier run left.
    fn create(
        &mut self,
        file: &Pending,
        fill: &mut Fill,
        slot: Option<Slot>,
    ) -> io::Result<OutputFile> {
        let (size, root) = (file.entry.size(), &mut self.root);
        if let Some(folder) = file.apart() {
            root.make_folder(folder)?;
        }
        let sparse = self.sparse || file.entry.data.is_some();
        if let Some(slot) = slot {
            return self.go_on(file, fill, (sparse, slot));
        }
        let output = begin(root, file)?;
        if sparse {
            sparse::stretch(&output, size)?;
        } else if size >= LARGE {
            allocate(&output, size).inspect_err(|_| remove(root, file))?;
        }
        Ok(output)
    }

    /// Goes on with a file that has a journal, or begins one.
    fn go_on(
        &mut self,
        file: &Pending,
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
            begin(root, file)?
        } else {
            let noted = Journal::read(&locked, subject)?;
            let there = root.look(&file.temporary)?;
            let there = there.filter(|there| is_continued(file, there));
            let noted = there.map(|there| within_file(noted, there.size));
            if noted.as_ref() != Some(&fill.held) {
                let text = "another transfer has changed what was there of it";
                return Err(io::Error::other(text));
            }
            root.reopen(&file.temporary)?
        };
        let room = if sparse {
            hollow(file, fill, &mut output)
        } else {
            allocate(&output, file.entry.size())
        };
        if let Err(error) = room {
            // what an earlier run left stays for a later one that finds more room
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

/// The failure of a file whose name another process has given to another file meanwhile.
pub(crate) fn replaced() -> io::Error {
    io::Error::other("another process has replaced it while it was written")
}

/// Whether a run of this user may have left the temporary file `there`, and nobody else can have a name for it. A file
/// that is written in its place is everybody's.
pub(crate) fn is_continued(file: &Pending, there: &Meta) -> bool {
    let is_private = there.is_ours() && there.names == 1;
    there.kind == FileType::RegularFile && (file.is_in_place() || is_private)
}

/// Makes the temporary file; a file that is written in its place stays the same file, with nothing in it.
fn begin(root: &mut Root, file: &Pending) -> io::Result<OutputFile> {
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

/// Gives a file its length, and makes a hole of all that no earlier run left: what comes is written into holes.
fn hollow(file: &Pending, fill: &Fill, output: &mut OutputFile) -> io::Result<()> {
    let size = file.entry.size();
    sparse::stretch(output, size)?;
    if fill.held.is_empty() {
        return Ok(());
    }
    let held = merged(fill.held.iter().map(|record| record.span).collect());
    // where the source has a hole by now, nothing comes and nothing is compared
    let held = within(&held, &file.entry.data());
    let gaps = missing(&held, size).into_iter();
    gaps.map(|(from, till)| from..till)
        .try_for_each(|gap| sparse::punch(output, gap))
}

/// Gives a file its length, and reserves room for all of it, so that a full disk shows now.
fn allocate(output: &OutputFile, size: u64) -> io::Result<()> {
    sparse::stretch(output, size)?;
    output.allocate(size)
}

/// Removes the temporary file, unless it has the name that it will keep.
fn remove(root: &mut Root, file: &Pending) {
    if !file.is_in_place() {
        root.remove(&file.temporary).ok();
    }
}
