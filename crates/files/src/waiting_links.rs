//! Hard links that wait until the first name of their files is in place.
//!
//! ```text
//! first name: listed --> in place or failed
//! other name: waits -------------------------> ready --> linked, or failed like the first
//! ```
//!
//! `Links` knows each listed first name by the number of its entry, and forgets it with its last
//! name. A name with another size, time or kind than the first is a file of its own: its inode has the
//! number of a removed one. Both limits of the table bound memory; names beyond them become
//! files of their own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use crate::manifest::{Entry, EntryKind};

/// Maximum number of files in the table, as on the sending side.
const FIRSTS_MAX: usize = 1 << 20;
/// Maximum number of octets of the paths of links.
const OCTETS_MAX: usize = 256 << 20;

/// Further name of a file.
#[derive(Debug)]
pub struct Name {
    /// Number of the entry.
    pub number: u64,
    /// The entry.
    pub entry: Entry,
    /// Temporary path of the link, until it replaces the item at its final path.
    pub temporary: PathBuf,
}

/// Path of the linked file, or the exit status of its failure.
pub type LinkTarget = Result<Vec<u8>, u8>;

/// Files with further names, and the names that were listed.
#[derive(Debug, Default)]
pub struct Links {
    firsts: BTreeMap<u64, First>,
    octets: usize,
    ready: VecDeque<(Name, LinkTarget)>,
    /// Numbers of the hard links that are neither in place nor failed.
    open: BTreeSet<u64>,
}

#[derive(Debug)]
struct First {
    path: Vec<u8>,
    /// Kind and size of the file, or target of the symbolic link.
    kind: EntryKind,
    /// Modification time.
    time: (i64, u32),
    /// Names that were not listed yet.
    left: u64,
    settled: Option<Result<(), u8>>,
    waiting: Vec<Name>,
}

impl Links {
    /// Records that `left` more names of entry `number` may follow. If the table is full, they
    /// become separate files.
    pub fn begin(&mut self, number: u64, entry: &Entry, left: u64) {
        let octets = self.octets + octets(&entry.path, &entry.kind);
        if left == 0 || self.firsts.len() >= FIRSTS_MAX || octets > OCTETS_MAX {
            return;
        }
        self.octets = octets;
        let first = First {
            path: entry.path.clone(),
            kind: entry.kind.clone(),
            time: (entry.seconds, entry.nanos),
            left,
            settled: None,
            waiting: Vec::new(),
        };
        self.firsts.insert(number, first);
    }

    /// Lets `name` wait for entry `first`. Returns false if that entry is unknown, or is another file.
    pub fn wait(&mut self, first: u64, name: Name) -> bool {
        let Some(file) = self.firsts.get_mut(&first) else {
            return false;
        };
        let time = (name.entry.seconds, name.entry.nanos);
        if file.kind != name.entry.kind || file.time != time {
            return false;
        }
        file.left = file.left.saturating_sub(1);
        self.open.insert(name.number);
        file.waiting.push(name);
        self.release(first);
        true
    }

    /// Records that entry `number` is in place, or has failed with the given exit status.
    pub fn settle(&mut self, number: u64, result: Result<(), u8>) {
        self.open.remove(&number);
        if let Some(file) = self.firsts.get_mut(&number) {
            file.settled = Some(result);
            self.release(number);
        }
    }

    /// Returns the next name whose file is in place or has failed.
    pub fn take_ready(&mut self) -> Option<(Name, LinkTarget)> {
        self.ready.pop_front()
    }

    /// Returns the lowest number of a name that is neither in place nor has failed.
    pub fn first_open(&self) -> Option<u64> {
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
            self.octets -= octets(&file.path, &file.kind);
            self.firsts.remove(&first);
        }
    }
}

/// Returns the octets that a first name takes.
fn octets(path: &[u8], kind: &EntryKind) -> usize {
    let target = match kind {
        EntryKind::Link(target) => target.len(),
        EntryKind::File(_) | EntryKind::Folder | EntryKind::FolderEnd => 0,
    };
    path.len() + target
}

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
        assert!(links.take_ready().is_none());
        assert_eq!(links.first_open(), Some(3));
        links.settle(1, Ok(()));
        assert!(links.wait(1, name(6)));
        links.settle(2, Err(24));
        let ready: Vec<_> = std::iter::from_fn(|| links.take_ready())
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
    /// A file system may give the inode number of a removed file to a new one during a copy.
    #[test]
    fn name_with_another_look_than_the_first_does_not_wait() {
        let file = |size| Entry {
            kind: EntryKind::File(size),
            ..name(0).entry
        };
        let link = |target: &[u8]| Entry {
            kind: EntryKind::Link(target.to_vec()),
            ..name(0).entry
        };
        let later = |entry: Entry| Entry {
            seconds: 1,
            ..entry
        };
        let finer = |entry: Entry| Entry { nanos: 1, ..entry };
        for (first, other, waits) in [
            (file(3), file(3), true),
            (file(3), file(4), false),
            (file(3), later(file(3)), false),
            (file(3), finer(file(3)), false),
            (file(0), link(b"x"), false),
            (link(b"x"), link(b"x"), true),
            (link(b"x"), link(b"y"), false),
        ] {
            let mut links = Links::default();
            links.begin(1, &first, 1);
            links.settle(1, Ok(()));
            let second = Name {
                entry: other.clone(),
                ..name(2)
            };
            assert_eq!(links.wait(1, second), waits, "{other:?}");
            assert_eq!(links.take_ready().is_some(), waits, "{other:?}");
            assert_eq!(links.octets == 0, waits);
        }
    }
}
