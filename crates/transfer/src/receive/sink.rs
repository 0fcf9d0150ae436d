//! The objects of one lane on the receiving side: files written under temporary names.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use lighthaul_files::digest::{Digest, Kind, Taking};
use lighthaul_files::object::LARGE;
use lighthaul_io::error::Error as World;
use lighthaul_io::fs::disk::OutputFile;
use lighthaul_io::fs::sparse::{self, FormerContent};
use lighthaul_io::store::blocks::Sink;
use lighthaul_session::error::{Code, Error};

use super::job::{Arrived, Incoming, Job};
use super::ledger::Pending;
use super::temp_files::{Attempt, TempFiles};
use crate::crew::Crew;

/// What a mode must allow for a file to be opened once more by its owner.
const OPEN: u32 = 0o600;

/// Writes files below a root.
#[derive(Debug)]
pub(crate) struct FileSink {
    pub(crate) crew: Arc<Crew>,
    pub(crate) files: TempFiles,
    pub(crate) kind: Kind,
    /// Files that are kept open at a time.
    pub(crate) open_max: usize,
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
        let (kind, sparse) = (self.kind, self.files.sparse);
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
            sparse::write(output, bytes, at, FormerContent::Hole)
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
        written.map_err(|error| self.files.fault(Attempt::Write, &file, &error))?;
        if whole {
            let digest = match digest {
                Some(digest) => Some(digest),
                None => read_back(output, kind, piece.offset, piece.len)
                    .map_err(|error| self.files.fault(Attempt::ReadBack, &file, &error))?,
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
            while writing.open.len() >= self.open_max {
                writing.open.pop_first();
            }
            match self.files.open(file) {
                Ok(None) => return Ok(None),
                Ok(Some(opened)) => {
                    writing.open.insert(file.number, opened);
                }
                Err(error) if error.code == Code::Io => return Err(error),
                Err(error) => {
                    // whoever publishes hears of it before the object's end
                    self.jobs.send(Job::Failed(file.number, error)).ok();
                    return Ok(None);
                }
            }
        }
        Ok(writing.open.get_mut(&file.number))
    }
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
        let crew = Arc::clone(&self.crew);
        let _step = crew.work.begin();
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
