//! Source of one lane: reads objects from files, and computes digests of their pieces.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use lighthaul_copy::error::Fault;
use lighthaul_copy::message::Report;
use lighthaul_copy::work::Work;
use lighthaul_files::digest::{DigestKind, Digester};
use lighthaul_fs::disk::InputFile;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_io::error::Error as World;
use lighthaul_io::store::read_ahead::Source;
use lighthaul_session::error::{Code, Error, FileAction};

use super::queue::PlannedObject;

/// Reader of the objects of one lane.
#[derive(Debug)]
pub(crate) struct FileSource {
    access: Arc<FileAccess>,
    work: Arc<Work>,
    kind: DigestKind,
    /// Most files that are open at a time.
    open_max: usize,
    /// Queue for the reports about each object, after all of it was read.
    reports: Sender<(u64, Vec<Report>)>,
    object: Option<Reading>,
}

/// Object that is being read.
#[derive(Debug)]
struct Reading {
    plan: Arc<PlannedObject>,
    open_max: usize,
    /// Open files, by the numbers of their entries.
    open: BTreeMap<u64, InputFile>,
    /// Unfinished digests, by piece.
    digester: BTreeMap<usize, Digester>,
    done: Vec<Option<Report>>,
    left: usize,
    failed: BTreeMap<u64, Error>,
    /// Offset up to which all bytes were read once, and are in the digests.
    passed: u64,
}

impl FileSource {
    /// Creates a source of files in `access`.
    pub(crate) fn new(
        (access, work): (Arc<FileAccess>, Arc<Work>),
        (kind, open_max): (DigestKind, usize),
        reports: Sender<(u64, Vec<Report>)>,
    ) -> Self {
        Self {
            access,
            work,
            kind,
            open_max,
            reports,
            object: None,
        }
    }
}

impl Reading {
    fn new(plan: Arc<PlannedObject>, open_max: usize) -> Self {
        let pieces = plan.layout.pieces().len();
        Self {
            plan,
            open_max,
            open: BTreeMap::new(),
            digester: BTreeMap::new(),
            done: vec![None; pieces],
            left: pieces,
            failed: BTreeMap::new(),
            passed: 0,
        }
    }

    /// Reads a part of piece `index`. Bytes that cannot be read are zero, and the file has failed.
    fn piece(&mut self, access: &FileAccess, index: usize, at: u64, buffer: &mut [u8]) {
        let offset = self.plan.layout.pieces()[index].offset + at;
        let done = match self
            .file(access, index)
            .map(|file| file.read_at(buffer, offset))
        {
            Ok(Ok(done)) => done,
            Ok(Err(error)) | Err(error) => {
                self.fail_read(index, &error);
                0
            }
        };
        if done < buffer.len() {
            buffer[done..].fill(0);
            self.fail(index, "it was truncated while it was sent");
        }
    }

    /// Records that the file of piece `index` has changed since it was listed.
    fn fail(&mut self, index: usize, how: &'static str) {
        let place = self.plan.items[index].place.clone();
        self.note(index, Fault::Changed { place, how }.into());
    }

    /// Records that the file of piece `index` cannot be read.
    fn fail_read(&mut self, index: usize, error: &std::io::Error) {
        if error.kind() == std::io::ErrorKind::NotFound {
            return self.fail(index, "it was removed before it was read");
        }
        let place = &self.plan.items[index].place;
        let error = Error::file(FileAction::Read, place, error);
        self.note(index, error);
    }

    fn note(&mut self, index: usize, error: Error) {
        let entry = self.plan.layout.pieces()[index].entry;
        self.failed.entry(entry).or_insert(error);
    }

    fn file(&mut self, access: &FileAccess, index: usize) -> std::io::Result<&InputFile> {
        let entry = self.plan.layout.pieces()[index].entry;
        if !self.open.contains_key(&entry) {
            while self.open.len() >= self.open_max {
                self.open.pop_first();
            }
            let item = Arc::clone(&self.plan.items[index]);
            let file = access.file(&item.place)?;
            if !item.is_unchanged(&file)? {
                self.fail(index, "it changed after it was listed");
            }
            self.open.insert(entry, file);
        }
        self.open
            .get(&entry)
            .ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }

    /// Adds a part of piece `index` to its digest. Creates the report after the last part.
    fn digest(&mut self, kind: DigestKind, index: usize, at: u64, bytes: &[u8]) {
        let piece = self.plan.layout.pieces()[index];
        let digester = self
            .digester
            .entry(index)
            .or_insert_with(|| Digester::new(kind, piece.len));
        digester.update(at, bytes);
        if !digester.is_whole() {
            return;
        }
        let digest = digester.finish();
        self.digester.remove(&index);
        let item = Arc::clone(&self.plan.items[index]);
        let file = self.open.get(&piece.entry);
        if file.is_some_and(|file| matches!(item.is_unchanged(file), Ok(false))) {
            self.fail(index, "it changed while it was sent");
        }
        if piece.end() == item.size {
            self.open.remove(&piece.entry);
        }
        self.left -= 1;
        self.done[index] = Some(match (self.failed.get(&piece.entry), digest) {
            (Some(error), _) => Report::Failed {
                code: error.code() as u8,
                why: error.text(),
            },
            (None, Some(digest)) => Report::Digest(digest),
            (None, None) => Report::Failed {
                code: Code::Io as u8,
                why: "bytes were read out of order".into(),
            },
        });
    }
}

impl Source for FileSource {
    type Object = Arc<PlannedObject>;

    fn begin(&mut self, plan: Arc<PlannedObject>) {
        self.object = Some(Reading::new(plan, self.open_max));
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), World> {
        let Some(object) = &mut self.object else {
            return Err(World::Store("no object is being sent".into()));
        };
        let _step = self.work.begin();
        let known = object.passed.saturating_sub(offset) as usize;
        let follows = offset <= object.passed;
        if follows {
            object.passed = object.passed.max(offset + buffer.len() as u64);
        }
        let plan = Arc::clone(&object.plan);
        let mut filled = 0;
        for part in plan.layout.parts(offset, buffer.len()) {
            buffer[filled..part.range.start].fill(0);
            filled = part.range.end;
            object.piece(
                &self.access,
                part.index,
                part.at,
                &mut buffer[part.range.clone()],
            );
            let new = part.range.start.max(known);
            if follows && new < part.range.end {
                let at = part.at + (new - part.range.start) as u64;
                object.digest(self.kind, part.index, at, &buffer[new..part.range.end]);
            }
        }
        buffer[filled..].fill(0);
        if object.left == 0 && !object.done.is_empty() {
            let reports = std::mem::take(&mut object.done)
                .into_iter()
                .flatten()
                .collect();
            // a lane that has stopped has ended the copy already
            self.reports.send((plan.number, reports)).ok();
        }
        Ok(())
    }
}
