//! Paths from a list instead of a walk, with the folders on the way to them.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use lighthaul_io::fs::ground::Ground;

use super::walk::{Found, Walk};
use crate::filter::Rules;
use crate::list::Names;
use crate::manifest::{Entry, Kind};

/// What is to be sent.
pub struct Finds {
    pub(crate) ground: Arc<Ground>,
    /// Entries are named after their source, rather than being the contents of one folder.
    pub(crate) named: bool,
    /// The folder whose contents they are, if it is to come along.
    pub(crate) top: Option<PathBuf>,
    pub(crate) from: Origin,
}

/// Where what is to be sent comes from.
pub(crate) enum Origin {
    /// A walk, or a list that is here.
    Here(Box<dyn Iterator<Item = Found> + Send>),
    /// A list that the receiver has, of paths seen from this folder.
    There(PathBuf),
}

impl Finds {
    /// What a walk finds.
    pub fn walked(walk: Walk) -> Self {
        Self {
            ground: walk.ground(),
            named: walk.named,
            top: walk.top(),
            from: Origin::Here(Box::new(walk)),
        }
    }

    /// What `names` lists, seen from the folder `base`.
    pub fn listed(ground: Arc<Ground>, base: PathBuf, names: Names, rules: Rules) -> Self {
        let listed = Listed::new(Arc::clone(&ground), base, names, rules);
        Self {
            ground,
            named: false,
            top: None,
            from: Origin::Here(Box::new(listed)),
        }
    }

    /// What somebody else finds, as the contents of a folder of `ground`.
    pub fn found(ground: Arc<Ground>, found: impl Iterator<Item = Found> + Send + 'static) -> Self {
        Self {
            ground,
            named: false,
            top: None,
            from: Origin::Here(Box::new(found)),
        }
    }

    /// What the receiver will list, seen from the folder `base`.
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

/// Finds what a list names, seen from one folder; of folders all that is in them.
pub(crate) struct Listed {
    ground: Arc<Ground>,
    base: PathBuf,
    names: Names,
    /// What is left out of what it names, but for the folders on the way.
    rules: Rules,
    /// What is found at the name that was read last.
    walk: Option<Walk>,
    /// Folders that have been told and not ended, with how they end.
    entered: BTreeMap<Vec<u8>, (Entry, PathBuf)>,
    ready: VecDeque<Found>,
}

impl Listed {
    /// What `names` lists below the folder `base`.
    pub(crate) fn new(ground: Arc<Ground>, base: PathBuf, names: Names, rules: Rules) -> Self {
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

    /// Takes the next name of the list; answers whether there was one.
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

    /// Tells a folder on the way, the first time.
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
                // the deepest first
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
