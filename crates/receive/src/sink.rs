//! Sink of one lane: writes objects to temporary files.
//!
//! ```text
//! bytes of an object --> pieces --> digest of each piece, temporary file --> job for the publisher
//! ```
//!
//! `FileSink` takes bytes in any order. Digests that need order are computed by reading back. At
//! most `open_max` files are open at a time. A file that cannot be opened fails alone, and an I/O
//! error ends the copy. The sink never compares digests and never renames: the publisher does.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use lighthaul_copy::error::Fault;
use lighthaul_copy::object_target::ObjectUpload;
use lighthaul_copy::thread_group::ThreadGroup;
use lighthaul_files::digest::{Digest, DigestKind, Digester};
use lighthaul_files::object::LARGE;
use lighthaul_files::stage_log::Staging;
use lighthaul_fs::disk::OutputFile;
use lighthaul_fs::sparse::{self, FormerContent};
use lighthaul_io::error::Error as World;
use lighthaul_io::store::blocks::Sink;
use lighthaul_session::error::{Code, Error, FileAction};

use super::entry_table::PendingFile;
use super::job::{Arrived, Incoming, Job};
use super::temp_files::{Attempt, Share, TempFiles};
use super::transfer::Transfer;

/// Mode bits that the owner needs to open a file again.
const OPEN: u32 = 0o600;

/// Writer of objects to files below a root.
#[derive(Debug)]
pub(crate) struct FileSink {
    pub(crate) threads: Arc<ThreadGroup>,
    pub(crate) files: TempFiles,
    pub(crate) kind: DigestKind,
    /// Maximum number of files that are open at a time.
    pub(crate) open_max: usize,
    /// Queue for complete objects.
    pub(crate) jobs: Sender<Job>,
    pub(crate) object: Option<Writing>,
}

/// Object that is being written.
#[derive(Debug)]
pub(crate) struct Writing {
    object: Arc<Incoming>,
    /// Open files, by the numbers of their entries.
    open: BTreeMap<u64, (Arc<PendingFile>, OutputFile)>,
    digester: BTreeMap<usize, Digester>,
    digests: Vec<Option<Digest>>,
}

impl FileSink {
    /// Creates the sink of a lane, which writes to `files` and opens at most `open_max` at a time.
    pub(super) fn new(
        transfer: &Transfer<'_>,
        files: &TempFiles,
        open_max: usize,
        jobs: Sender<Job>,
    ) -> Result<Self, Error> {
        let failed = |e| Error::file(FileAction::Open, &files.target, &e);
        Ok(Self {
            threads: Arc::clone(&transfer.threads),
            files: files.another().map_err(failed)?,
            kind: transfer.options().digest,
            open_max,
            jobs,
            object: None,
        })
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let Some(mut writing) = self.object.take() else {
            return Err(Fault::NoObject.into());
        };
        let object = Arc::clone(&writing.object);
        for part in object.layout.parts(offset, bytes.len()) {
            self.piece(&mut writing, part.index, part.at, &bytes[part.range])?;
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
        let digester = writing
            .digester
            .entry(index)
            .or_insert_with(|| Digester::new(kind, piece.len));
        digester.update(at, bytes);
        let whole = digester.is_whole();
        let digest = digester.finish().filter(|_| whole);
        if let Some(upload) = &file.upload {
            self.upload(&file, &**upload, (piece.offset + at, bytes));
            if whole {
                writing.digests[index] = digest;
                writing.digester.remove(&index);
            }
            return Ok(());
        }
        let share = if piece.len == file.entry.size() && !file.resumable {
            Share::Whole
        } else {
            Share::Part
        };
        let Some(output) = self.open(writing, &file, share)? else {
            return Ok(());
        };
        let at = piece.offset + at;
        let written = if sparse {
            // an earlier part may have written other bytes
            let before = if file.staging == Staging::Private {
                FormerContent::Hole
            } else {
                FormerContent::Bytes
            };
            sparse::write(output, bytes, at, before)
        } else {
            output.write_at(bytes, at)
        };
        let written = written.and_then(|()| {
            let plain = file.entry.extras.is_none() && file.entry.mode & OPEN == OPEN;
            let early = plain && !file.is_in_place();
            if !whole {
                return Ok(());
            }
            if piece.len == file.entry.size() && early {
                output.set_mode(file.entry.mode)?;
                output.set_time(file.entry.seconds, file.entry.nanos)?;
                file.fill().finished = true;
            }
            file.note_version(output)
        });
        written.map_err(|error| self.files.fault(Attempt::Write, &file, &error))?;
        if whole {
            let digest = match digest {
                Some(digest) => Some(digest),
                None => read_back(output, kind, piece.offset, piece.len)
                    .map_err(|error| self.files.fault(Attempt::ReadBack, &file, &error))?,
            };
            writing.digests[index] = digest;
            writing.digester.remove(&index);
            if piece.len < LARGE {
                writing.open.remove(&piece.entry);
            }
        }
        Ok(())
    }

    /// Passes bytes to the upload of an object.
    fn upload(&self, file: &PendingFile, upload: &dyn ObjectUpload, (at, bytes): (u64, &[u8])) {
        if file.fill().failed {
            return;
        }
        if let Err(error) = upload.write(at, bytes) {
            file.fill().failed = true;
            // the publisher receives this before the end of the object
            self.jobs.send(Job::Failed(file.number, error)).ok();
        }
    }

    /// Returns the open temporary file, or none if the file has failed; the failure is recorded.
    fn open<'w>(
        &mut self,
        writing: &'w mut Writing,
        file: &Arc<PendingFile>,
        share: Share,
    ) -> Result<Option<&'w mut OutputFile>, Error> {
        if !writing.open.contains_key(&file.number) {
            while writing.open.len() >= self.open_max
                && let Some((_, (file, output))) = writing.open.pop_first()
            {
                let noted = file.note_version(&output);
                noted.map_err(|error| self.files.fault(Attempt::Write, &file, &error))?;
            }
            match self.files.open(file, share) {
                Ok(None) => return Ok(None),
                Ok(Some(opened)) => {
                    let open = (Arc::clone(file), opened);
                    writing.open.insert(file.number, open);
                }
                Err(error) if error.code() == Code::Io => return Err(error),
                Err(error) => {
                    // the publisher receives this before the end of the object
                    self.jobs.send(Job::Failed(file.number, error)).ok();
                    return Ok(None);
                }
            }
        }
        let open = writing.open.get_mut(&file.number);
        Ok(open.map(|(_, output)| output))
    }
}

/// Returns the digest of a range of the file, for kinds of digests that need the bytes in order.
fn read_back(
    file: &OutputFile,
    kind: DigestKind,
    offset: u64,
    len: u64,
) -> io::Result<Option<Digest>> {
    let mut digester = Digester::new(kind, len);
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < len {
        let part = (len - at).min(buffer.len() as u64) as usize;
        file.read_at(&mut buffer[..part], offset + at)?;
        digester.update(at, &buffer[..part]);
        at += part as u64;
    }
    Ok(digester.finish())
}

impl Sink for FileSink {
    type Object = Arc<Incoming>;

    fn begin(&mut self, object: Arc<Incoming>) -> Result<(), World> {
        self.object = Some(Writing {
            open: BTreeMap::new(),
            digester: BTreeMap::new(),
            digests: vec![None; object.files.len()],
            object,
        });
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), World> {
        let threads = Arc::clone(&self.threads);
        let _step = threads.work.begin();
        self.put(offset, bytes).map_err(|error| {
            let text = error.text();
            self.threads.fail(error);
            World::Store(text)
        })
    }

    fn end(&mut self) -> Result<(), World> {
        if let Some(Writing {
            object, digests, ..
        }) = self.object.take()
        {
            // a publisher that has stopped has failed
            self.jobs
                .send(Job::Arrived(Arrived { object, digests }))
                .ok();
        }
        Ok(())
    }
}
