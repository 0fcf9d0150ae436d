//! Finds what a folder at the target has and its source does not.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use lighthaul_files::manifest::{Entry, Kind};
use lighthaul_files::temp_names::PREFIX;

/// The names that the source has, in each of the folders that the list is in.
#[derive(Debug)]
pub(crate) struct Sieve {
    stack: Vec<(Vec<u8>, BTreeSet<Vec<u8>>)>,
    /// The folder that everything goes to is the source's, too.
    whole: bool,
    /// Something at the source could not be read, so that what is missing may be there.
    doubtful: bool,
    said: bool,
}

impl Sieve {
    /// A sieve for entries that are `named` after their source, or for the contents of a folder.
    pub(crate) fn new(named: bool) -> Self {
        Self {
            stack: vec![(Vec::new(), BTreeSet::new())],
            whole: !named,
            doubtful: false,
            said: false,
        }
    }

    /// Whether the folder that everything goes to is the source's, too.
    pub(crate) const fn is_whole(&self) -> bool {
        self.whole
    }

    /// The source has `entry`.
    pub(crate) fn take(&mut self, entry: &Entry) {
        if entry.kind == Kind::Leave {
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
        if entry.kind == Kind::Folder {
            self.stack.push((entry.path.clone(), BTreeSet::new()));
        }
    }

    /// Not all that the source has may be listed: nothing is removed from now on.
    pub(crate) const fn doubt(&mut self) {
        self.doubtful = true;
    }

    /// The sentence that says so, once.
    pub(crate) fn doubts(&mut self) -> Option<String> {
        let say = self.doubtful && !self.said;
        self.said |= say;
        say.then(|| "nothing is deleted, since some of the source could not be read".to_owned())
    }

    /// The folder `path` ends; answers the paths of what is `there` and the source does not have.
    pub(crate) fn end(&mut self, path: &[u8], there: Vec<OsString>) -> Vec<Vec<u8>> {
        let listed = self.stack.last().is_some_and(|(folder, _)| folder == path);
        if !listed {
            return Vec::new();
        }
        let Some((_, names)) = self.stack.pop() else {
            return Vec::new();
        };
        if self.doubtful || path.is_empty() && !self.whole {
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
