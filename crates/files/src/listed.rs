//! Entries of a list of paths, instead of a walk, with the directories above them.
//!
//! [`SourceEntries`] is what a sender lists: a walk, a list of either side, or any iterator of
//! entries. [`ListWalk`] reads a list path by path, and walks each named directory. It adds each
//! directory above a path once, before the path. The ends of these directories follow after the
//! whole list, each after those below it. Paths that do not exist become failed entries, and the
//! others continue.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use lighthaul_fs::file_access::FileAccess;

use crate::filter::Rules;
use crate::list::{ListedPath, PathList};
use crate::manifest::{Entry, EntryKind};
use crate::naming::Naming;
use crate::object::Span;
use crate::source_store::SourceStore;
use crate::walk::{Found, Walk, WalkOptions};

/// Source of entries for a copy.
pub struct SourceEntries {
    /// Part of the file system that holds the entries.
    pub access: Arc<FileAccess>,
    /// Names of the entries.
    pub naming: Naming,
    /// Directory that contains the entries, if its attributes are copied.
    pub top: Option<PathBuf>,
    /// Origin of the entries.
    pub from: Origin,
    /// Store that has the entries, if `access` has not.
    pub store: Option<Arc<dyn SourceStore>>,
}

/// Origin of entries.
pub enum Origin {
    /// A walk, or a list on this side.
    Local(FoundEntries),
    /// A list from the receiver, and the function that returns its entries.
    Remote(Box<dyn FnOnce(PathList) -> FoundEntries + Send>),
}

/// Entries as they are found.
pub type FoundEntries = Box<dyn Iterator<Item = Found> + Send>;

impl SourceEntries {
    /// Returns the entries of a walk.
    pub fn from_walk(walk: Walk) -> Self {
        Self {
            access: walk.access(),
            naming: walk.naming,
            top: walk.top(),
            from: Origin::Local(Box::new(walk)),
            store: None,
        }
    }

    /// Returns the entries of the list `names`, relative to the directory `base`.
    pub fn from_list(
        access: Arc<FileAccess>,
        base: PathBuf,
        names: PathList,
        options: WalkOptions,
    ) -> Self {
        let listed = ListWalk::new(Arc::clone(&access), base, names, options);
        Self {
            access,
            naming: Naming::Contents,
            top: None,
            from: Origin::Local(Box::new(listed)),
            store: None,
        }
    }

    /// Returns the entries of an iterator, as contents of a directory in `access`.
    pub fn from_entries(
        access: Arc<FileAccess>,
        found: impl Iterator<Item = Found> + Send + 'static,
    ) -> Self {
        Self {
            access,
            naming: Naming::Contents,
            top: None,
            from: Origin::Local(Box::new(found)),
            store: None,
        }
    }

    /// Returns the entries of an iterator over objects of a store. `access` has no files.
    pub fn from_store(
        (access, store): (FileAccess, Arc<dyn SourceStore>),
        naming: Naming,
        found: impl Iterator<Item = Found> + Send + 'static,
    ) -> Self {
        Self {
            access: Arc::new(access),
            naming,
            top: None,
            from: Origin::Local(Box::new(found)),
            store: Some(store),
        }
    }

    /// Returns the entries of a list that the receiver sends, relative to the directory `base`.
    pub fn from_receiver(access: Arc<FileAccess>, base: PathBuf, options: WalkOptions) -> Self {
        let below = Arc::clone(&access);
        let walk = |names| Box::new(ListWalk::new(below, base, names, options)) as FoundEntries;
        Self {
            access,
            naming: Naming::Contents,
            top: None,
            from: Origin::Remote(Box::new(walk)),
            store: None,
        }
    }

    /// Returns the entries of a list that the receiver sends, of objects of a store. `access` has no files.
    pub fn from_receiver_in_store(
        (access, store): (FileAccess, Arc<dyn SourceStore>),
        walk: impl FnOnce(PathList) -> FoundEntries + Send + 'static,
    ) -> Self {
        Self {
            access: Arc::new(access),
            naming: Naming::Contents,
            top: None,
            from: Origin::Remote(Box::new(walk)),
            store: Some(store),
        }
    }
}

impl std::fmt::Debug for SourceEntries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SourceEntries({:?})", self.naming)
    }
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Local(_) => "Local",
            Self::Remote(_) => "Remote",
        })
    }
}

/// Iterator over the entries that a list names, relative to one directory. Named directories are walked.
pub struct ListWalk {
    access: Arc<FileAccess>,
    base: PathBuf,
    names: PathList,
    /// Options for all entries except the directories above the listed paths.
    options: WalkOptions,
    /// Walk of the path that was read last.
    walk: Option<Walk>,
    /// Wanted range of the file at that path; none for all of it.
    range: Option<Span>,
    /// Parents of listed paths that were added. For a directory, the entry and the place of its end, which is pending.
    entered: BTreeMap<Vec<u8>, Option<(Entry, PathBuf)>>,
    ready: VecDeque<Found>,
}

impl ListWalk {
    /// Creates an iterator over the list `names`, relative to the directory `base`.
    pub fn new(
        access: Arc<FileAccess>,
        base: PathBuf,
        names: PathList,
        options: WalkOptions,
    ) -> Self {
        Self {
            access,
            base,
            names,
            options,
            walk: None,
            range: None,
            entered: BTreeMap::new(),
            ready: VecDeque::new(),
        }
    }

    /// Starts the walk of the next path. Returns false at the end of the list.
    fn advance(&mut self) -> bool {
        let ListedPath { path: name, range } = match self.names.next() {
            None => return false,
            Some(Err(error)) => {
                self.ready.push_back(Found::Failed(Vec::new(), error));
                return true;
            }
            Some(Ok(name)) => name,
        };
        for (end, octet) in name.iter().enumerate() {
            if *octet == b'/' {
                self.enter(&name[..end]);
            }
        }
        let place = self.base.join(OsStr::from_bytes(&name));
        let (access, options) = (Arc::clone(&self.access), self.options.clone());
        self.walk = Some(Walk::at(access, place, name, options));
        self.range = range;
        true
    }

    /// Adds a directory above a listed path, unless it was added before. A link or file there is
    /// also added once.
    fn enter(&mut self, path: &[u8]) {
        if self.entered.contains_key(path) {
            return;
        }
        let place = self.base.join(OsStr::from_bytes(path));
        let (access, all) = (Arc::clone(&self.access), Rules::default());
        let first = Walk::at(access, place, path.to_vec(), all).next();
        let mut end = None;
        if let Some(Found::Entry(entry, place, meta)) = first {
            if entry.kind == EntryKind::Folder {
                let leave = Entry {
                    kind: EntryKind::FolderEnd,
                    ..entry.clone()
                };
                end = Some((leave, place.clone()));
            }
            self.ready.push_back(Found::Entry(entry, place, meta));
        }
        self.entered.insert(path.to_vec(), end);
    }
}

impl Iterator for ListWalk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            if let Some(found) = self.ready.pop_front() {
                return Some(found);
            }
            if let Some(mut found) = self.walk.as_mut().and_then(Iterator::next) {
                if let (Found::Entry(entry, ..), Some(range)) = (&mut found, self.range.take()) {
                    limit(entry, range);
                }
                return Some(found);
            }
            self.walk = None;
            if !self.advance() {
                // the deepest directory ends first
                let (_, end) = self.entered.pop_last()?;
                if let Some((leave, place)) = end {
                    return Some(Found::Entry(leave, place, None));
                }
            }
        }
    }
}

/// Limits the data of a file to `range`.
fn limit(entry: &mut Entry, (from, till): Span) {
    if let EntryKind::File(size) = entry.kind {
        let range = (from.min(size), till.min(size));
        // the file may have become shorter
        let is_there = range.0 < range.1;
        entry.data = Some(is_there.then_some(range).into_iter().collect());
    }
}

impl std::fmt::Debug for ListWalk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ListWalk(below {})", self.base.display())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Returns the path and the kind of each entry of a list below `base`.
    fn entries(base: &std::path::Path, names: &'static [&'static str]) -> Vec<(String, EntryKind)> {
        let access = Arc::new(FileAccess::anywhere());
        let names = PathList::new(names.iter().map(|name| Ok(name.as_bytes().to_vec())));
        let walk = ListWalk::new(access, base.to_owned(), names, WalkOptions::default());
        let entries = walk.filter_map(|found| match found {
            Found::Entry(entry, ..) => Some((
                String::from_utf8_lossy(&entry.path).into_owned(),
                entry.kind,
            )),
            Found::Mount(..)
            | Found::Skipped(_)
            | Found::Noted(_)
            | Found::Excluded(..)
            | Found::Failed(..) => None,
        });
        entries.collect()
    }

    #[test]
    fn each_parent_of_listed_paths_is_added_once() {
        let base = std::env::temp_dir().join(format!("listed-{}", std::process::id()));
        fs::create_dir_all(base.join("dir")).unwrap();
        for name in ["plain", "dir/a", "dir/b"] {
            fs::write(base.join(name), "").unwrap();
        }
        symlink("dir", base.join("link")).unwrap();
        let names = &["link/a", "link/b", "plain/x", "plain/y", "dir/a", "dir/b"];
        let entries = entries(&base, names);
        for (above, kind) in [
            ("link", EntryKind::Link(b"dir".to_vec())),
            ("plain", EntryKind::File(0)),
            ("dir", EntryKind::Folder),
            ("dir", EntryKind::FolderEnd),
        ] {
            let is_it = |(path, its): &&(String, EntryKind)| path == above && *its == kind;
            assert_eq!(entries.iter().filter(is_it).count(), 1, "{entries:?}");
        }
        fs::remove_dir_all(base).unwrap();
    }
}
