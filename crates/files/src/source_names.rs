//! Names at the source, to find items that only the target has.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use lighthaul_session::fault::PeerFault;

use crate::manifest::{Entry, EntryKind};
use crate::temp_names::PREFIX;

/// Maximum number of directories with unlisted contents whose end has not been listed.
const UNLISTED_MAX: usize = 1 << 12;

/// Names at the source, for each directory of the list that has not ended.
#[derive(Debug)]
pub struct SourceNames {
    stack: Vec<(Vec<u8>, BTreeSet<Vec<u8>>)>,
    /// True if the target directory corresponds to one source directory.
    whole: bool,
    /// True if a part of the source could not be read, so that the names are incomplete.
    is_incomplete: bool,
    is_reported: bool,
    /// Directories whose contents were not listed.
    unlisted: BTreeSet<Vec<u8>>,
}

impl SourceNames {
    /// Creates the state for entries that begin with the name of their source (`named`), or for the contents of a
    /// directory.
    pub fn new(named: bool) -> Self {
        Self {
            stack: vec![(Vec::new(), BTreeSet::new())],
            whole: !named,
            is_incomplete: false,
            is_reported: false,
            unlisted: BTreeSet::new(),
        }
    }

    /// Returns true if the target directory corresponds to one source directory.
    pub const fn is_whole(&self) -> bool {
        self.whole
    }

    /// Adds the name of `entry`.
    pub fn add(&mut self, entry: &Entry) {
        if entry.kind == EntryKind::FolderEnd {
            return;
        }
        let cut = entry.path.iter().rposition(|octet| *octet == b'/');
        let (folder, name) = match cut {
            Some(at) => (&entry.path[..at], &entry.path[at + 1..]),
            None => (&[][..], entry.path.as_slice()),
        };
        if let Some((_, names)) = self.stack.iter_mut().rev().find(|(path, _)| path == folder) {
            names.insert(name.to_vec());
        }
        if entry.kind == EntryKind::Folder {
            self.stack.push((entry.path.clone(), BTreeSet::new()));
        }
    }

    /// Records that the contents of the directory `path` are not listed, so that none are deleted.
    pub fn leave_unlisted(&mut self, path: Vec<u8>) -> Result<(), PeerFault> {
        if self.unlisted.len() >= UNLISTED_MAX {
            return Err(PeerFault::Invalid("too many directories without contents"));
        }
        self.unlisted.insert(path);
        Ok(())
    }

    /// Records that the names are incomplete, so that no more entries are deleted.
    pub const fn mark_incomplete(&mut self) {
        self.is_incomplete = true;
    }

    /// Returns a message about that, once.
    pub fn take_warning(&mut self) -> Option<String> {
        let say = self.is_incomplete && !self.is_reported;
        self.is_reported |= say;
        say.then(|| "nothing is deleted, because some of the source could not be read".to_owned())
    }

    /// Ends the directory `path`. Returns the paths of items in `there` that the source does not have.
    pub fn end_folder(&mut self, path: &[u8], there: Vec<OsString>) -> Vec<Vec<u8>> {
        let listed = self.stack.last().is_some_and(|(folder, _)| folder == path);
        if !listed {
            return Vec::new();
        }
        let Some((_, names)) = self.stack.pop() else {
            return Vec::new();
        };
        if self.unlisted.remove(path) || self.is_incomplete || path.is_empty() && !self.whole {
            return Vec::new();
        }
        let gone = there.into_iter().filter(|name| {
            let name = name.as_bytes();
            !names.contains(name) && !name.starts_with(PREFIX)
        });
        let full = |name: OsString| match path {
            [] => name.into_vec(),
            _ => [path, b"/", name.as_bytes()].concat(),
        };
        gone.map(full).collect()
    }
}
