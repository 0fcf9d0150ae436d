//! Completion of entries: attributes, hard links and holes, which only some options need.
//!
//! [`Inspector`] stands between the walk and the list that is sent. It completes each entry in its
//! turn, so that memory does not grow with the list, except for the table of hard links. It reads
//! metadata only, and no data of files. Attributes that cannot be read become a warning. A file
//! that vanished stays in the list, and fails when it is read.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;

use lighthaul_fs::file_access::FileAccess;
use lighthaul_fs::meta::Meta;
use lighthaul_fs::metadata::{Extras, Keep};
use lighthaul_fs::sparse::DataRanges;

use crate::hard_links::HardLinks;
use crate::manifest::{Entry, EntryKind, Linked, PARTS_MAX};
use crate::mode_changes::ModeChanges;
use crate::notes::Notes;
use crate::object::{Span, within};
use crate::options::Options;
use crate::walk::Found;

/// Iterator that completes the metadata of each entry when the walk finds it.
pub struct Inspector {
    found: Box<dyn Iterator<Item = Found> + Send>,
    access: Arc<FileAccess>,
    /// Metadata to read besides permissions and modification times, if any.
    keep: Option<Keep>,
    notes: Notes,
    /// Attributes of directories whose end is pending. They are read before reading the directory changes
    /// its access time.
    folders: BTreeMap<Vec<u8>, Option<Box<Extras>>>,
    /// Table of hard links, if they are preserved.
    links: Option<HardLinks>,
    /// True if the user gave the expected hash of the only file.
    expects: bool,
    /// True if holes are read before they are left out.
    reads_holes: bool,
    /// Changes of permission bits.
    chmod: ModeChanges,
    /// Entries so far.
    listed: u64,
    ready: VecDeque<Found>,
}

impl Inspector {
    /// Creates an iterator over `found` in `access`. `top` is the directory whose contents they
    /// are.
    pub fn new(
        (found, top): (Box<dyn Iterator<Item = Found> + Send>, Option<&Path>),
        access: Arc<FileAccess>,
        options: &Options,
    ) -> Self {
        let keep = Keep {
            mode: false,
            modified: false,
            ..options.keep
        };
        let mut inspected = Self {
            found,
            access,
            keep: (keep != Keep::default()).then_some(keep),
            notes: Notes::default(),
            folders: BTreeMap::new(),
            links: options.hard_links.then(HardLinks::default),
            expects: options.expects(),
            reads_holes: options.reads_holes(),
            chmod: options.chmod.clone(),
            listed: 0,
            ready: VecDeque::new(),
        };
        if let Some(top) = top {
            let extras = inspected.extras(top);
            inspected.folders.insert(Vec::new(), extras);
        }
        inspected
    }

    /// Completes the metadata of `entry`, which is at `place`. `meta` is the metadata of a file or link.
    fn inspect(&mut self, entry: &mut Entry, place: &Path, meta: Option<&Meta>) {
        if !matches!(entry.kind, EntryKind::Link(_)) {
            let is_folder = !matches!(entry.kind, EntryKind::File(_));
            entry.mode = self.chmod.apply(entry.mode, is_folder);
        }
        match entry.kind {
            EntryKind::Folder => {
                let extras = self.extras(place);
                self.folders.insert(entry.path.clone(), extras);
            }
            EntryKind::FolderEnd => entry.extras = self.folders.remove(&entry.path).flatten(),
            EntryKind::Link(_) => {
                entry.extras = self.extras(place);
                entry.linked = meta.map_or(Linked::Alone, |meta| self.linked(meta));
            }
            EntryKind::File(size) => {
                entry.extras = self.extras(place);
                entry.linked = meta.map_or(Linked::Alone, |meta| self.linked(meta));
                if let Some(meta) = meta.filter(|meta| meta.allocated < size) {
                    // holes that cannot be read now are found when the file is read
                    let data = self.data(meta, place).unwrap_or_default();
                    entry.data = match (data, entry.data.take()) {
                        // a range is sent with its holes if they must be read first
                        (Some(_), Some(range)) if self.reads_holes => Some(range),
                        (Some(data), Some(range)) => Some(data_in(&data, &range)),
                        (data, range) => data.or(range),
                    };
                }
            }
        }
    }

    fn extras(&mut self, place: &Path) -> Option<Box<Extras>> {
        let keep = self.keep?;
        let read = self.access.inode(place).and_then(|inode| inode.read(keep));
        // a file that is gone or closed by now fails when it is read
        let (extras, not_kept) = read.ok()?;
        let news = self.notes.unreported(not_kept);
        self.ready.extend(news.into_iter().map(Found::Noted));
        Some(Box::new(extras))
    }

    /// Returns the other names of the file or link that was found last.
    fn linked(&mut self, meta: &Meta) -> Linked {
        let Some(links) = &mut self.links else {
            return Linked::Alone;
        };
        let dropped = links.dropped();
        match links.record((meta.inode, meta.version().look), meta.names, self.listed) {
            Some(first) => Linked::To(first),
            None if meta.names > 1 && links.dropped() == dropped => Linked::First(meta.names - 1),
            None => Linked::Alone,
        }
    }

    /// Returns the warning about hard links that were not preserved, after the last entry.
    fn conclude(&mut self) -> Option<Found> {
        let dropped = self.links.take()?.dropped();
        (dropped > 0).then(|| {
            Found::Noted(format!(
                "up to {dropped} hard links were copied as separate files, because too many files have several names; \
                copy fewer directories at a time to preserve them"
            ))
        })
    }

    /// Returns the ranges of data in the file, or none if it has no holes or has changed since
    /// `listed`.
    fn data(&self, listed: &Meta, place: &Path) -> io::Result<Option<Vec<Span>>> {
        let file = self.access.file(place)?;
        let parts = DataRanges::of(&file, listed.size).list(PARTS_MAX)?;
        if file.version()? != listed.version() {
            return Ok(None);
        }
        let data: Vec<Span> = parts.iter().map(|part| (part.start, part.end)).collect();
        // a file of one hole is not sent, so it could not be held back until its hash is known
        let is_whole = data == [(0, listed.size)] || self.expects && data.is_empty();
        Ok((!is_whole).then_some(data))
    }
}

impl std::fmt::Debug for Inspector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inspector({} listed)", self.listed)
    }
}

/// Returns the data in a wanted range. A range without data keeps one byte, so that the receiver can name it.
fn data_in(data: &[Span], range: &[Span]) -> Vec<Span> {
    let found = within(data, range);
    if found.is_empty() {
        return range.iter().map(|(from, _)| (*from, from + 1)).collect();
    }
    found
}

impl Iterator for Inspector {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        if let Some(found) = self.ready.pop_front() {
            return Some(found);
        }
        let Some(found) = self.found.next() else {
            return self.conclude();
        };
        let (mut entry, place, meta) = match found {
            Found::Entry(entry, place, meta) => (entry, place, meta),
            Found::Mount(mut entry, place) => {
                self.inspect(&mut entry, &place, None);
                self.listed += 1;
                self.ready.push_back(Found::Mount(entry, place));
                return self.ready.pop_front();
            }
            Found::Skipped(_) | Found::Noted(_) | Found::Excluded(..) | Found::Failed(..) => {
                return Some(found);
            }
        };
        self.inspect(&mut entry, &place, meta.as_ref());
        self.listed += 1;
        self.ready.push_back(Found::Entry(entry, place, meta));
        self.ready.pop_front()
    }
}
