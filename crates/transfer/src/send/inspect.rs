//! What an entry has that only some have, or that is only kept if somebody asks.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;

use lighthaul_io::fs::ground::Ground;
use lighthaul_io::fs::meta::Meta;
use lighthaul_io::fs::metadata::{Extras, Keep};
use lighthaul_io::fs::sparse::DataRanges;

use super::walk::Found;
use crate::hard_links::HardLinks;
use crate::manifest::{Entry, Kind, Linked, PARTS_MAX};
use crate::message::Span;
use crate::notes::Notes;
use crate::options::Options;

/// Looks once more at what is found, as soon as it is.
pub(crate) struct Inspected {
    found: Box<dyn Iterator<Item = Found> + Send>,
    ground: Arc<Ground>,
    /// What is kept besides permissions and the time of the last change; nothing if there is nothing.
    keep: Option<Keep>,
    notes: Notes,
    /// What the folders had that have not ended, before reading them changed when that was.
    folders: BTreeMap<Vec<u8>, Option<Box<Extras>>>,
    /// Which files are the same, if that is to stay so.
    links: Option<HardLinks>,
    /// The bytes of the one file must come to what somebody expects.
    expects: bool,
    /// Entries so far.
    listed: u64,
    ready: VecDeque<Found>,
}

impl Inspected {
    /// All that is `found` on `ground`, completed, and the folder `top` that it is in.
    pub(crate) fn new(
        (found, top): (Box<dyn Iterator<Item = Found> + Send>, Option<&Path>),
        ground: Arc<Ground>,
        options: &Options,
    ) -> Self {
        let keep = Keep {
            mode: false,
            modified: false,
            ..options.keep
        };
        let mut inspected = Self {
            found,
            ground,
            keep: (keep != Keep::default()).then_some(keep),
            notes: Notes::default(),
            folders: BTreeMap::new(),
            links: options.hard_links.then(HardLinks::default),
            expects: options.expects(),
            listed: 0,
            ready: VecDeque::new(),
        };
        if let Some(top) = top {
            let extras = inspected.extras(top);
            inspected.folders.insert(Vec::new(), extras);
        }
        inspected
    }

    /// Completes `entry`, which is at `place` and like `meta` if it is a file.
    fn inspect(&mut self, entry: &mut Entry, place: &Path, meta: Option<&Meta>) {
        match entry.kind {
            Kind::Folder => {
                let extras = self.extras(place);
                self.folders.insert(entry.path.clone(), extras);
            }
            Kind::Leave => entry.extras = self.folders.remove(&entry.path).flatten(),
            Kind::Link(_) => {
                entry.extras = self.extras(place);
                entry.linked = meta.map_or(Linked::Alone, |meta| self.linked(meta));
            }
            Kind::File(size) => {
                entry.extras = self.extras(place);
                entry.linked = meta.map_or(Linked::Alone, |meta| self.linked(meta));
                if let Some(meta) = meta.filter(|meta| meta.allocated < size) {
                    // what cannot be found out now is found out when it is read
                    entry.data = self.data(meta, place).unwrap_or_default();
                }
            }
        }
    }

    fn extras(&mut self, place: &Path) -> Option<Box<Extras>> {
        let keep = self.keep?;
        let read = self.ground.inode(place).and_then(|inode| inode.read(keep));
        // what is gone or closed by now fails when it is read
        let (extras, not_kept) = read.ok()?;
        let news = self.notes.news(not_kept);
        self.ready.extend(news.into_iter().map(Found::Noted));
        Some(Box::new(extras))
    }

    /// Which other names the file or link has that was found last.
    fn linked(&mut self, meta: &Meta) -> Linked {
        let Some(links) = &mut self.links else {
            return Linked::Alone;
        };
        let forgone = links.forgone();
        match links.note(meta.inode, meta.names, self.listed) {
            Some(first) => Linked::To(first),
            None if meta.names > 1 && links.forgone() == forgone => Linked::First(meta.names - 1),
            None => Linked::Alone,
        }
    }

    /// What is to be said when all was found.
    fn conclude(&mut self) -> Option<Found> {
        let forgone = self.links.take()?.forgone();
        (forgone > 0).then(|| {
            Found::Noted(format!(
                "up to {forgone} names became files of their own, since too many files have several: \
                 copy fewer folders at a time to keep them"
            ))
        })
    }

    /// Where the file has data; nothing if it has no holes, or has changed since `listed`.
    fn data(&self, listed: &Meta, place: &Path) -> io::Result<Option<Vec<Span>>> {
        let file = self.ground.file(place)?;
        let parts = DataRanges::of(&file, listed.size).list(PARTS_MAX)?;
        if file.version()? != listed.version() {
            return Ok(None);
        }
        let data: Vec<Span> = parts.iter().map(|part| (part.start, part.end)).collect();
        // a file that is nothing but a hole is not sent, and so could not be held until its hash is known
        let is_whole = data == [(0, listed.size)] || self.expects && data.is_empty();
        Ok((!is_whole).then_some(data))
    }
}

impl Iterator for Inspected {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        if let Some(found) = self.ready.pop_front() {
            return Some(found);
        }
        let Some(found) = self.found.next() else {
            return self.conclude();
        };
        let Found::Entry(mut entry, place, meta) = found else {
            return Some(found);
        };
        self.inspect(&mut entry, &place, meta.as_ref());
        self.listed += 1;
        self.ready.push_back(Found::Entry(entry, place, meta));
        self.ready.pop_front()
    }
}
