//! Entries of a list of paths, in place of a walk, with the folders above them.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use lighthaul_io::fs::ground::Ground;

use crate::filter::Rules;
use crate::list::Names;
use crate::manifest::{Entry, Kind};
use crate::walk::{Found, Walk};

/// Source of entries for a copy.
pub struct Finds {
    /// Part of the file system that holds the entries.
    pub ground: Arc<Ground>,
    /// True if entries have the names of their sources; false if they are the contents of one
    /// folder.
    pub named: bool,
    /// Folder whose contents the entries are, if its attributes are copied.
    pub top: Option<PathBuf>,
    /// Origin of the entries.
    pub from: Origin,
}

/// Origin of entries.
pub enum Origin {
    /// A walk, or a list on this side.
    Here(Box<dyn Iterator<Item = Found> + Send>),
    /// A list that the receiver sends, of paths relative to this folder.
    There(PathBuf),
}

impl Finds {
    /// Returns the entries of a walk.
    pub fn walked(walk: Walk) -> Self {
        Self {
            ground: walk.ground(),
            named: walk.named,
            top: walk.top(),
            from: Origin::Here(Box::new(walk)),
        }
    }

    /// Returns the entries of the list `names`, relative to the folder `base`.
    pub fn listed(ground: Arc<Ground>, base: PathBuf, names: Names, rules: Rules) -> Self {
        let listed = Listed::new(Arc::clone(&ground), base, names, rules);
        Self {
            ground,
            named: false,
            top: None,
            from: Origin::Here(Box::new(listed)),
        }
    }

    /// Returns the entries of an iterator, as contents of a folder in `ground`.
    pub fn found(ground: Arc<Ground>, found: impl Iterator<Item = Found> + Send + 'static) -> Self {
        Self {
            ground,
            named: false,
            top: None,
            from: Origin::Here(Box::new(found)),
        }
    }

    /// Returns the entries of a list that the receiver sends, relative to the folder `base`.
    pub const fn awaited(ground: Arc<Ground>, base: PathBuf) -> Self {
        Self {
            ground,
            named: false,
            top: None,
            from: Origin::There(base),
        }
    }
}

impl std::fmt::Debug for Finds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Finds(named {})", self.named)
    }
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Here(_) => "Here",
            Self::There(_) => "There",
        })
    }
}

/// Iterator over the entries that a list names, relative to one folder. Named folders are walked.
pub struct Listed {
    ground: Arc<Ground>,
    base: PathBuf,
    names: Names,
    /// Rules for everything but the folders above the listed paths.
    rules: Rules,
    /// Walk of the path that was read last.
    walk: Option<Walk>,
    /// Folders whose end is pending, with the entry and the place of their end.
    entered: BTreeMap<Vec<u8>, (Entry, PathBuf)>,
    ready: VecDeque<Found>,
}

impl Listed {
    /// Creates an iterator over the list `names`, relative to the folder `base`.
    pub fn new(ground: Arc<Ground>, base: PathBuf, names: Names, rules: Rules) -> Self {
        Self {
            ground,
            base,
            names,
            rules,
            walk: None,
            entered: BTreeMap::new(),
            ready: VecDeque::new(),
        }
    }

    /// Starts the walk of the next path. Returns false at the end of the list.
    fn advance(&mut self) -> bool {
        let name = match self.names.next() {
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
        let (ground, rules) = (Arc::clone(&self.ground), self.rules.clone());
        self.walk = Some(Walk::at(ground, place, name, rules));
        true
    }

    /// Adds a folder above a listed path, unless it was added before.
    fn enter(&mut self, path: &[u8]) {
        if self.entered.contains_key(path) {
            return;
        }
        let place = self.base.join(OsStr::from_bytes(path));
        let (ground, all) = (Arc::clone(&self.ground), Rules::default());
        let first = Walk::at(ground, place, path.to_vec(), all).next();
        if let Some(Found::Entry(entry, place, meta)) = first {
            if entry.kind == Kind::Folder {
                let leave = Entry {
                    kind: Kind::Leave,
                    ..entry.clone()
                };
                self.entered.insert(path.to_vec(), (leave, place.clone()));
            }
            self.ready.push_back(Found::Entry(entry, place, meta));
        }
    }
}

impl Iterator for Listed {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            if let Some(found) = self.ready.pop_front() {
                return Some(found);
            }
            if let Some(found) = self.walk.as_mut().and_then(Iterator::next) {
                return Some(found);
            }
            self.walk = None;
            if !self.advance() {
                // the deepest folder ends first
                let (_, (leave, place)) = self.entered.pop_last()?;
                return Some(Found::Entry(leave, place, None));
            }
        }
    }
}

impl std::fmt::Debug for Listed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Listed(below {})", self.base.display())
    }
}
