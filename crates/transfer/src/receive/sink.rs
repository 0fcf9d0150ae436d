//! The objects of one lane on the receiving side: files written under temporary names.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use lighthaul_io::blocks::Sink;
use lighthaul_io::disk::{OutputFile, Root};
use lighthaul_io::error::Error as World;
use lighthaul_io::sparse::{self, Before};
use rustix::fs::FileType;

use super::journal::{Journal, Subject, merged, missing};
use super::ledger::{Fill, Pending};
use super::publish::Job;
use crate::crew::Crew;
use crate::digest::{Digest, Kind, Taking};
use crate::error::{Code, Error};
use crate::object::{LARGE, Layout};

/// What a mode must allow for a file to be opened once more by its owner.
const OPEN: u32 = 0o600;
/// Files kept open at a time.
const OPEN_MAX: usize = 64;

/// An object that is coming.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) number: u64,
    pub(crate) layout: Layout,
    /// The file of each piece.
    pub(crate) files: Vec<Arc<Pending>>,
}

/// An object that has come, and the digest of each piece; nothing for one whose file has failed.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) object: Arc<Incoming>,
    pub(crate) digests: Vec<Option<Digest>>,
}

/// Writes files below a root.
#[derive(Debug)]
pub(crate) struct FileSink {
    pub(crate) crew: Arc<Crew>,
    pub(crate) root: Root,
    /// What people know the root as.
    pub(crate) target: PathBuf,
    pub(crate) kind: Kind,
    /// See [`Subject`].
    pub(crate) boot: u64,
    /// Zeros are not written.
    pub(crate) sparse: bool,
    /// Hears of objects that have come.
    pub(crate) jobs: Sender<Job>,
    pub(crate) object: Option<Writing>,
}

/// An object that is being written.
#[derive(Debug)]
pub(crate) struct Writing {
    object: Arc<Incoming>,
    /// Open files, by the number of their entry.
    open: BTreeMap<u64, OutputFile>,
    taking: BTreeMap<usize, Taking>,
    digests: Vec<Option<Digest>>,
}

impl FileSink {
    fn put(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let Some(mut writing) = self.object.take() else {
            return Err(Error::new(Code::Io, "bytes came that belong to no object"));
        };
        let object = Arc::clone(&writing.object);
        for cut in object.layout.cut(offset, bytes.len()) {
            self.piece(&mut writing, cut.index, cut.at, &bytes[cut.range])?;
        }
        self.object = Some(writing);
        Ok(())
    }

    fn piece(
        &mut self,
        writing: &mut Writing,
        index: usize,
        at: u64,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let piece = writing.object.layout.pieces()[index];
        let file = Arc::clone(&writing.object.files[index]);
        let (kind, sparse) = (self.kind, self.sparse);
        let taking = writing
            .taking
            .entry(index)
            .or_insert_with(|| Taking::new(kind, piece.len));
        taking.take(at, bytes);
        let whole = taking.is_whole();
        let digest = taking.finish().filter(|_| whole);
        let Some(output) = self.open(writing, &file)? else {
            return Ok(());
        };
        let at = piece.offset + at;
        let written = if sparse {
            sparse::write(output, bytes, at, Before::Hole)
        } else {
            output.write_at(bytes, at)
        };
        let written = written.and_then(|()| {
            let plain = file.entry.extras.is_none() && file.entry.mode & OPEN == OPEN;
            let early = plain && !file.is_in_place();
            if whole && piece.len == file.entry.size() && early {
                output.set_mode(file.entry.mode)?;
                output.set_time(file.entry.seconds, file.entry.nanos)?;
                file.fill().finished = true;
            }
            Ok(())
        });
        written.map_err(|error| self.fault("cannot write", &file, &error))?;
        if whole {
            let digest = match digest {
                Some(digest) => Some(digest),
                None => read_back(output, kind, piece.offset, piece.len)
                    .map_err(|error| self.fault("cannot read back", &file, &error))?,
            };
            writing.digests[index] = digest;
            writing.taking.remove(&index);
            if piece.len < LARGE {
                writing.open.remove(&piece.entry);
            }
        }
        Ok(())
    }

    /// The file under its temporary name; nothing if it has failed, which is noted.
    fn open<'w>(
        &mut self,
        writing: &'w mut Writing,
        file: &Pending,
    ) -> Result<Option<&'w mut OutputFile>, Error> {
        if !writing.open.contains_key(&file.number) {
            while writing.open.len() >= OPEN_MAX {
                writing.open.pop_first();
            }
            let mut fill = file.fill();
            if fill.failed {
                return Ok(None);
            }
            let opened = if fill.created {
                self.root.reopen(&file.temporary)
            } else {
                let sparse = self.sparse || file.entry.data.is_some();
                create(&mut self.root, file, &mut fill, (self.boot, sparse))
            };
            match opened {
                Ok(opened) => {
                    fill.created = true;
                    writing.open.insert(file.number, opened);
                }
                Err(error) => {
                    fill.failed = true;
                    let error = self.fault("cannot create", file, &error);
                    if error.code == Code::Io {
                        return Err(error);
                    }
                    let number = file.number;
                    // whoever publishes hears of it before the object's end
                    self.jobs.send(Job::Failed(number, error)).ok();
                    return Ok(None);
                }
            }
        }
        Ok(writing.open.get_mut(&file.number))
    }

    fn fault(&self, what: &str, file: &Pending, error: &io::Error) -> Error {
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
}

/// Makes the temporary file, or goes on with one that an earlier run left.
fn create(
    root: &mut Root,
    file: &Pending,
    fill: &mut Fill,
    (boot, sparse): (u64, bool),
) -> io::Result<OutputFile> {
    let size = file.entry.size();
    if let Some(folder) = file.apart() {
        root.make_folder(folder)?;
    }
    if !file.resumable {
        let output = begin(root, file)?;
        if sparse {
            sparse::stretch(&output, size)?;
        } else if size >= LARGE {
            allocate(root, file, &output)?;
        }
        return Ok(output);
    }
    let locked = root.lock(&file.journal)?;
    let subject = Subject {
        look: file.look(),
        boot,
    };
    let held = Journal::read(&locked, subject)?;
    if !fill.held.iter().all(|proved| held.contains(proved)) {
        return Err(io::Error::other(
            "another transfer has changed what was there of it",
        ));
    }
    let mut output = if fill.held.is_empty() {
        begin(root, file)?
    } else {
        root.reopen(&file.temporary)?
    };
    let room = if sparse {
        hollow(file, fill, &mut output)
    } else {
        allocate(root, file, &output)
    };
    if let Err(error) = room {
        root.remove(&file.journal).ok();
        return Err(error);
    }
    fill.journal = Some(Journal::begin(locked, subject, &fill.held)?);
    Ok(output)
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

/// Gives a file its length, and makes a hole of all that nobody proved: what comes is written into holes.
fn hollow(file: &Pending, fill: &Fill, output: &mut OutputFile) -> io::Result<()> {
    let size = file.entry.size();
    sparse::stretch(output, size)?;
    if fill.held.is_empty() {
        return Ok(());
    }
    let held = merged(fill.held.iter().map(|(span, _)| *span).collect());
    let gaps = missing(&held, size).into_iter();
    gaps.map(|(from, till)| from..till)
        .try_for_each(|gap| sparse::punch(output, gap))
}

/// Reserves room for all of a file, so that a full disk shows now; leaves nothing where there is none.
fn allocate(root: &mut Root, file: &Pending, output: &OutputFile) -> io::Result<()> {
    output.allocate(file.entry.size()).inspect_err(|_| {
        if !file.is_in_place() {
            root.remove(&file.temporary).ok();
        }
    })
}

/// The digest of what is in the file, for kinds that could not follow the order of arrival.
fn read_back(file: &OutputFile, kind: Kind, offset: u64, len: u64) -> io::Result<Option<Digest>> {
    let mut taking = Taking::new(kind, len);
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < len {
        let part = (len - at).min(buffer.len() as u64) as usize;
        file.read_at(&mut buffer[..part], offset + at)?;
        taking.take(at, &buffer[..part]);
        at += part as u64;
    }
    Ok(taking.finish())
}

impl Sink for FileSink {
    type Object = Arc<Incoming>;

    fn begin(&mut self, object: Arc<Incoming>) -> Result<(), World> {
        self.object = Some(Writing {
            open: BTreeMap::new(),
            taking: BTreeMap::new(),
            digests: vec![None; object.files.len()],
            object,
        });
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), World> {
        self.put(offset, bytes).map_err(|error| {
            let text = error.text.clone();
            self.crew.fail(error);
            World::Store(text)
        })
    }

    fn end(&mut self) -> Result<(), World> {
        if let Some(Writing {
            object, digests, ..
        }) = self.object.take()
        {
            // who does not listen any more has failed
            self.jobs
                .send(Job::Arrived(Arrived { object, digests }))
                .ok();
        }
        Ok(())
    }
}
