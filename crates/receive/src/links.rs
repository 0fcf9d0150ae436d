//! Hard links that wait until the first name of their files is in place.
//!
//! ```text
//! first name: listed --> in place or failed
//! other name: waits -------------------------> ready --> linked, or failed like the first
//! ```
//!
//! `Links` knows each listed first name by the number of its entry, and forgets it with its last
//! name. Both limits of the table bound memory; names beyond them become files of their own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use lighthaul_files::manifest::Entry;
use lighthaul_fs::disk::Root;

/// Maximum number of files in the table, as on the sending side.
const FIRSTS_MAX: usize = 1 << 20;
/// Maximum number of octets of the paths of links.
const OCTETS_MAX: usize = 256 << 20;

/// Further name of a file.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) number: u64,
    pub(crate) entry: Entry,
    /// Temporary path of the link, until it replaces the item at its final path.
    pub(crate) temporary: PathBuf,
}

/// Path of the linked file, or the exit status of its failure.
pub(crate) type LinkTarget = Result<Vec<u8>, u8>;

/// Files with further names, and the names that were listed.
#[derive(Debug, Default)]
pub(crate) struct Links {
    firsts: BTreeMap<u64, First>,
    octets: usize,
    ready: VecDeque<(Name, LinkTarget)>,
    /// Numbers of the hard links that are neither in place nor failed.
    open: BTreeSet<u64>,
}

#[derive(Debug)]
struct First {
    path: Vec<u8>,
    /// Names that were not listed yet.
    left: u64,
    settled: Option<Result<(), u8>>,
    waiting: Vec<Name>,
}

impl Links {
    /// Records that `left` more names of entry `number` may follow. If the table is full, they
    /// become separate files.
    pub(crate) fn begin(&mut self, number: u64, entry: &Entry, left: u64) {
        let octets = self.octets + entry.path.len();
        if left == 0 || self.firsts.len() >= FIRSTS_MAX || octets > OCTETS_MAX {
            return;
        }
        self.octets = octets;
        let first = First {
            path: entry.path.clone(),
            left,
            settled: None,
            waiting: Vec::new(),
        };
        self.firsts.insert(number, first);
    }

    /// Lets `name` wait for entry `first`. Returns false if that entry is unknown.
    pub(crate) fn wait(&mut self, first: u64, name: Name) -> bool {
        let Some(file) = self.firsts.get_mut(&first) else {
            return false;
        };
        file.left = file.left.saturating_sub(1);
        self.open.insert(name.number);
        file.waiting.push(name);
        self.release(first);
        true
    }

    /// Records that entry `number` is in place, or has failed with the given exit status.
    pub(crate) fn settle(&mut self, number: u64, result: Result<(), u8>) {
        self.open.remove(&number);
        if let Some(file) = self.firsts.get_mut(&number) {
            file.settled = Some(result);
            self.release(number);
        }
    }

    /// Returns the next name whose file is in place or has failed.
    pub(crate) fn next(&mut self) -> Option<(Name, LinkTarget)> {
        self.ready.pop_front()
    }

    /// Returns the lowest number of a name that is neither in place nor has failed.
    pub(crate) fn first_open(&self) -> Option<u64> {
        self.open.first().copied()
    }

    /// Moves the names that wait for entry `first` to the queue, if that entry is in place or
    /// failed.
    fn release(&mut self, first: u64) {
        let Some(file) = self.firsts.get_mut(&first) else {
            return;
        };
        let Some(settled) = file.settled else { return };
        let target = settled.map(|()| file.path.clone());
        for name in file.waiting.drain(..) {
            self.ready.push_back((name, target.clone()));
        }
        if file.left == 0 {
            self.octets -= file.path.len();
            self.firsts.remove(&first);
        }
    }
}

/// Other directories with files to link to, opened for the first entry.
#[derive(Debug, Default)]
pub(super) struct References(pub(super) Option<Vec<Root>>);

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u64) -> Name {
        Name {
            number,
            entry: Entry::bare(number.to_string().into_bytes()),
            temporary: PathBuf::new(),
        }
    }

    #[test]
    fn hard_links_wait_for_their_file_and_fail_with_it() {
        let mut links = Links::default();
        links.begin(1, &name(1).entry, 2);
        links.begin(2, &name(2).entry, 5);
        assert!(links.wait(1, name(3)) && links.wait(2, name(4)));
        assert!(!links.wait(3, name(5)), "not a first name");
        assert!(links.next().is_none());
        assert_eq!(links.first_open(), Some(3));
        links.settle(1, Ok(()));
        assert!(links.wait(1, name(6)));
        links.settle(2, Err(24));
        let ready: Vec<_> = std::iter::from_fn(|| links.next())
            .map(|(name, place)| (name.number, place))
            .collect();
        let first = || Ok(b"1".to_vec());
        assert_eq!(ready, [(3, first()), (6, first()), (4, Err(24))]);
        for number in [3, 6, 4] {
            links.settle(number, Ok(()));
        }
        assert_eq!(links.first_open(), None);
        // all names of the first file were listed
        assert!(!links.wait(1, name(7)) && links.wait(2, name(8)));
        assert_eq!(links.octets, 1);
    }
}
