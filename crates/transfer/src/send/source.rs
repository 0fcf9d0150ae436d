//! The object on the sending side: files read piece by piece, digests taken on the way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use lighthaul_files::digest::{Kind, Taking};
use lighthaul_io::error::Error as World;
use lighthaul_io::fs::disk::InputFile;
use lighthaul_io::fs::ground::Ground;
use lighthaul_io::store::read_ahead::Source;
use lighthaul_session::error::{Code, Error};

use super::queue::Plan;
use crate::message::Report;
use crate::work::Work;

/// Reads the objects of one lane.
#[derive(Debug)]
pub(crate) struct FileSource {
    ground: Arc<Ground>,
    work: Arc<Work>,
    kind: Kind,
    /// Files that are kept open at a time.
    open_max: usize,
    /// Hears what is to be said of each object, as soon as all of it has been read.
    reports: Sender<(u64, Vec<Report>)>,
    object: Option<Reading>,
}

/// An object that is being read.
#[derive(Debug)]
struct Reading {
    plan: Arc<Plan>,
    open_max: usize,
    /// Open files, by the number of their entry.
    open: BTreeMap<u64, InputFile>,
    /// Digests by piece, while they are being taken.
    taking: BTreeMap<usize, Taking>,
    done: Vec<Option<Report>>,
    left: usize,
    failed: BTreeMap<u64, Error>,
    /// All bytes before this have passed once, and are in the digests.
    passed: u64,
}

impl FileSource {
    /// A source below `ground`.
    pub(crate) fn new(
        (ground, work): (Arc<Ground>, Arc<Work>),
        (kind, open_max): (Kind, usize),
        reports: Sender<(u64, Vec<Report>)>,
    ) -> Self {
        Self {
            ground,
            work,
            kind,
            open_max,
            reports,
            object: None,
        }
    }
}

impl Reading {
    fn new(plan: Arc<Plan>, open_max: usize) -> Self {
        let pieces = plan.layout.pieces().len();
        Self {
            plan,
            open_max,
            open: BTreeMap::new(),
            taking: BTreeMap::new(),
            done: vec![None; pieces],
            left: pieces,
            failed: BTreeMap::new(),
            passed: 0,
        }
    }

    /// Reads a part of piece `index`; what cannot be read is zero, and the file has failed.
    fn piece(&mut self, ground: &Ground, index: usize, at: u64, buffer: &mut [u8]) {
        let offset = self.plan.layout.pieces()[index].offset + at;
        let done = match self
            .file(ground, index)
            .map(|file| file.read_at(buffer, offset))
        {
            Ok(Ok(done)) => done,
            Ok(Err(error)) | Err(error) => {
                self.miss(index, &error);
                0
            }
        };
        if done < buffer.len() {
            buffer[done..].fill(0);
            self.fail(index, "it became shorter while it was sent");
        }
    }

    /// The file of piece `index` is not what it was when it was listed.
    fn fail(&mut self, index: usize, why: &str) {
        let place = self.plan.items[index].place.display();
        let error = Error::new(Code::Changed, format!("{place}: {why}"));
        self.note(index, error);
    }

    /// The file of piece `index` cannot be read.
    fn miss(&mut self, index: usize, error: &std::io::Error) {
        if error.kind() == std::io::ErrorKind::NotFound {
            return self.fail(index, "it vanished before it was read");
        }
        let place = &self.plan.items[index].place;
        let error = Error::file(Code::Io, "cannot read", place, error);
        self.note(index, error);
    }

    fn note(&mut self, index: usize, error: Error) {
        let entry = self.plan.layout.pieces()[index].entry;
        self.failed.entry(entry).or_insert(error);
    }

    fn file(&mut self, ground: &Ground, index: usize) -> std::io::Result<&InputFile> {
        let entry = self.plan.layout.pieces()[index].entry;
        if !self.open.contains_key(&entry) {
            while self.open.len() >= self.open_max {
                self.open.pop_first();
            }
            let item = Arc::clone(&self.plan.items[index]);
            let file = ground.file(&item.place)?;
            if !item.is_unchanged(&file)? {
                self.fail(index, "it changed after it was listed");
            }
            self.open.insert(entry, file);
        }
        self.open
            .get(&entry)
            .ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }

    /// Takes a part of piece `index` into its digest; says what there is to say when that was the last.
    fn digest(&mut self, kind: Kind, index: usize, at: u64, bytes: &[u8]) {
        let piece = self.plan.layout.pieces()[index];
        let taking = self
            .taking
            .entry(index)
            .or_insert_with(|| Taking::new(kind, piece.len));
        taking.take(at, bytes);
        if !taking.is_whole() {
            return;
        }
        let digest = taking.finish();
        self.taking.remove(&index);
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
                code: error.code as u8,
                why: error.text.clone(),
            },
            (None, Some(digest)) => Report::Digest(digest),
            (None, None) => Report::Failed {
                code: Code::Io as u8,
                why: "its bytes were read out of order".into(),
            },
        });
    }
}

impl Source for FileSource {
    type Object = Arc<Plan>;

    fn begin(&mut self, plan: Arc<Plan>) {
        self.object = Some(Reading::new(plan, self.open_max));
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), World> {
        let Some(object) = &mut self.object else {
            return Err(World::Store("nothing is being sent".into()));
        };
        let _step = self.work.begin();
        let known = object.passed.saturating_sub(offset) as usize;
        let follows = offset <= object.passed;
        if follows {
            object.passed = object.passed.max(offset + buffer.len() as u64);
        }
        let plan = Arc::clone(&object.plan);
        let mut filled = 0;
        for cut in plan.layout.cut(offset, buffer.len()) {
            buffer[filled..cut.range.start].fill(0);
            filled = cut.range.end;
            object.piece(
                &self.ground,
                cut.index,
                cut.at,
                &mut buffer[cut.range.clone()],
            );
            let new = cut.range.start.max(known);
            if follows && new < cut.range.end {
                let at = cut.at + (new - cut.range.start) as u64;
                object.digest(self.kind, cut.index, at, &buffer[new..cut.range.end]);
            }
        }
        buffer[filled..].fill(0);
        if object.left == 0 && !object.done.is_empty() {
            let reports = std::mem::take(&mut object.done)
                .into_iter()
                .flatten()
                .collect();
            // a listener that is gone has ended the transfer already
            self.reports.send((plan.number, reports)).ok();
        }
        Ok(())
    }
}
