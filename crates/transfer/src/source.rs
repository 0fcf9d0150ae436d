//! The object on the sending side: files read in the order of the manifest, digests taken on the way.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use lighthaul_io::disk::{InputFile, Look};
use lighthaul_io::error::Error as World;
use lighthaul_io::read_ahead::Source;
use serde::{Deserialize, Serialize};

use crate::digest::{Digest, Kind, Taking};
use crate::manifest::{Entry, Manifest};

/// What the sender has to say about a file, once it has read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// It had this digest.
    Digest(Digest),
    /// It changed, vanished or could not be read; the sentence says which.
    Failed(String),
}

/// Reads the files of a manifest as one object.
#[derive(Debug)]
pub struct TreeSource {
    manifest: Arc<Manifest>,
    places: Arc<[PathBuf]>,
    kind: Kind,
    open: BTreeMap<usize, InputFile>,
    taking: BTreeMap<usize, Taking>,
    failed: BTreeMap<usize, String>,
    /// All bytes before this have passed once, and are in the digests.
    passed: u64,
    reports: Sender<(usize, Report)>,
}

/// Files kept open at a time.
const OPEN_MAX: usize = 64;

impl TreeSource {
    /// A source of `manifest`, whose entries are at `places`; tells `reports` of every file it has
    /// read through.
    pub fn new(
        manifest: Arc<Manifest>,
        places: Arc<[PathBuf]>,
        kind: Kind,
        reports: Sender<(usize, Report)>,
    ) -> Self {
        Self {
            manifest,
            places,
            kind,
            open: BTreeMap::new(),
            taking: BTreeMap::new(),
            failed: BTreeMap::new(),
            passed: 0,
            reports,
        }
    }

    /// Reads a piece of file `index`; what cannot be read is zero, and the file has failed.
    fn piece(&mut self, index: usize, at: u64, buffer: &mut [u8]) {
        let done = match self.file(index).map(|file| file.read_at(buffer, at)) {
            Ok(Ok(done)) => done,
            Ok(Err(error)) | Err(error) => {
                self.fail(index, &error.to_string());
                0
            }
        };
        if done < buffer.len() {
            buffer[done..].fill(0);
            self.fail(index, "it became shorter while it was sent");
        }
    }

    fn fail(&mut self, index: usize, why: &str) {
        let place = &self.places[index];
        self.failed
            .entry(index)
            .or_insert_with(|| format!("{}: {why}", place.display()));
    }

    fn file(&mut self, index: usize) -> std::io::Result<&InputFile> {
        if !self.open.contains_key(&index) {
            while self.open.len() >= OPEN_MAX {
                self.open.pop_first();
            }
            let file = InputFile::open(&self.places[index])?;
            if file.look()? != expected(&self.manifest.entries()[index]) {
                self.fail(index, "it changed after it was listed");
            }
            self.open.insert(index, file);
        }
        self.open
            .get(&index)
            .ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }

    /// Takes a piece into its file's digest; reports the file when that was the last of it.
    fn digest(&mut self, index: usize, at: u64, bytes: &[u8]) {
        let entry = &self.manifest.entries()[index];
        let kind = self.kind;
        let taking = self
            .taking
            .entry(index)
            .or_insert_with(|| Taking::new(kind, entry.size()));
        taking.take(at, bytes);
        if !taking.is_whole() {
            return;
        }
        let digest = taking.finish();
        self.taking.remove(&index);
        let file = self.open.get(&index).map(InputFile::look);
        if let Some(Ok(look)) = file
            && look != expected(&self.manifest.entries()[index])
        {
            self.fail(index, "it changed while it was sent");
        }
        let report = match (self.failed.get(&index), digest) {
            (Some(why), _) => Report::Failed(why.clone()),
            (None, Some(digest)) => Report::Digest(digest),
            (None, None) => Report::Failed("its bytes were read out of order".into()),
        };
        // a listener that is gone has ended the transfer already
        self.reports.send((index, report)).ok();
    }
}

impl Source for TreeSource {
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), World> {
        let manifest = Arc::clone(&self.manifest);
        let len = buffer.len();
        let known = self.passed.saturating_sub(offset) as usize;
        if offset <= self.passed {
            self.passed = self.passed.max(offset + len as u64);
        }
        let mut filled = 0;
        manifest.cut(offset, len, |index, at, range| {
            buffer[filled..range.start].fill(0);
            filled = range.end;
            self.piece(index, at, &mut buffer[range.clone()]);
            let new = range.start.max(known);
            if offset <= self.passed && new < range.end {
                self.digest(
                    index,
                    at + (new - range.start) as u64,
                    &buffer[new..range.end],
                );
            }
            Ok::<(), World>(())
        })?;
        buffer[filled..].fill(0);
        Ok(())
    }
}

fn expected(entry: &Entry) -> Look {
    Look {
        size: entry.size(),
        seconds: entry.seconds,
        nanos: entry.nanos,
    }
}
