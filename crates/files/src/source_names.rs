//! Names at the source, to find items that only the target has.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use lighthaul_session::fault::PeerFault;

use crate::manifest::{Entry, EntryKind, PATH_MAX};
use crate::temp_names::PREFIX;

/// Maximum number of directories with unlisted contents whose end has not been listed.
const UNLISTED_MAX: usize = 1 << 12;

/// Deepest nesting of directories: no path has more names.
const DEPTH_MAX: usize = PATH_MAX / 2 + 1;
/// Maximum number of octets of the names in directories that have not ended, with the memory for each.
const OCTETS_MAX: usize = 2 << 30;
/// Octets that a name takes besides its own, in the set and on the heap.
const NAME: usize = 80;

/// Names at the source, for each directory of the list that has not ended.
#[derive(Debug)]
pub struct SourceNames {
    stack: Vec<(Vec<u8>, BTreeSet<Vec<u8>>)>,
    octets: usize,
    /// True if the target directory corresponds to one source directory.
    whole: bool,
    /// True if a part of the source could not be read, so that the names are incomplete.
    is_incomplete: bool,
    is_reported: bool,
    /// Directories whose contents were not listed.
    unlisted: BTreeSet<Vec<u8>>,
}

/// Differences between the names of a directory at the source and at the target.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct OtherNames {
    /// Paths of items that only the target has.
    pub surplus: Vec<Vec<u8>>,
    /// Paths that only the source has, if there is a surplus. A file system that rewrites names may show their items
    /// under other names.
    pub unseen: Vec<Vec<u8>>,
}

impl SourceNames {
    /// Creates the state for entries that begin with the name of their source (`named`), or for the contents of a
    /// directory.
    pub fn new(named: bool) -> Self {
        Self {
            stack: vec![(Vec::new(), BTreeSet::new())],
            octets: 0,
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

    /// Adds the name of `entry`. Fails if a peer lists more than fits into memory.
    pub fn add(&mut self, entry: &Entry) -> Result<(), PeerFault> {
        if entry.kind == EntryKind::FolderEnd {
            return Ok(());
        }
        let cut = entry.path.iter().rposition(|octet| *octet == b'/');
        let (folder, name) = match cut {
            Some(at) => (&entry.path[..at], &entry.path[at + 1..]),
            None => (&[][..], entry.path.as_slice()),
        };
        if let Some((_, names)) = self.stack.iter_mut().rev().find(|(path, _)| path == folder)
            && names.insert(name.to_vec())
        {
            self.octets += name.len() + NAME;
        }
        if entry.kind == EntryKind::Folder {
            self.stack.push((entry.path.clone(), BTreeSet::new()));
        }
        if self.stack.len() > DEPTH_MAX {
            return Err(PeerFault::Invalid(
                "too many directories without their ends",
            ));
        }
        if self.octets > OCTETS_MAX {
            return Err(PeerFault::Invalid(
                "too many names in directories without their ends",
            ));
        }
        Ok(())
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

    /// Ends the directory `path`. Returns the differences from the names `there` at the target.
    pub fn end_folder(&mut self, path: &[u8], there: Vec<OsString>) -> OtherNames {
        let listed = self.stack.last().is_some_and(|(folder, _)| folder == path);
        if !listed {
            return OtherNames::default();
        }
        let Some((_, mut names)) = self.stack.pop() else {
            return OtherNames::default();
        };
        let octets: usize = names.iter().map(|name| name.len() + NAME).sum();
        self.octets -= octets;
        if self.unlisted.remove(path) || self.is_incomplete || path.is_empty() && !self.whole {
            return OtherNames::default();
        }
        let full = |name: Vec<u8>| match path {
            [] => name,
            _ => [path, b"/", &name].concat(),
        };
        let there = there.into_iter().map(OsString::into_vec);
        let surplus = there.filter(|name| !names.remove(name) && !name.starts_with(PREFIX));
        let surplus: Vec<_> = surplus.map(full).collect();
        let unseen = if surplus.is_empty() {
            Vec::new()
        } else {
            names.into_iter().map(full).collect()
        };
        OtherNames { surplus, unseen }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &[u8], kind: EntryKind) -> Entry {
        Entry {
            kind,
            ..Entry::bare(path.to_vec())
        }
    }

    #[test]
    fn names_of_a_directory_are_compared_at_its_end() {
        let mut names = SourceNames::new(false);
        names.add(&entry(b"x", EntryKind::Folder)).unwrap();
        for path in [&b"x/a"[..], b"x/b", b"x/c"] {
            names.add(&entry(path, EntryKind::File(1))).unwrap();
        }
        let there = |names: &[&str]| names.iter().map(OsString::from).collect();
        let other = names.end_folder(b"x", there(&["a", "B", "c", "d", ".lighthaul-1"]));
        assert_eq!(other.surplus, [b"x/B", b"x/d"]);
        assert_eq!(other.unseen, [b"x/b"]);
        let other = names.end_folder(b"", there(&["x", "y"]));
        assert_eq!(other.surplus, [b"y"]);
        assert!(other.unseen.is_empty());
        assert_eq!(names.octets, 0);
    }

    #[test]
    fn peer_cannot_list_directories_without_end() {
        let mut names = SourceNames::new(false);
        let folder = |nth: usize| entry(nth.to_string().as_bytes(), EntryKind::Folder);
        // the target directory is one of them
        for nth in 1..DEPTH_MAX {
            names.add(&folder(nth)).unwrap();
        }
        assert!(names.add(&folder(0)).is_err());
    }
}
