//! Inode numbers of paths.
//!
//! The kernel names files by numbers, and the server by paths. A number keeps its path until the kernel has forgotten all
//! lookups of it. A renamed directory takes the paths below it along.

use std::collections::BTreeMap;

use fuser::INodeNo;

/// Paths by numbers, and numbers by paths.
#[derive(Debug)]
pub(crate) struct Inodes {
    by_number: BTreeMap<u64, Inode>,
    by_path: BTreeMap<Vec<u8>, u64>,
    last: u64,
}

#[derive(Debug)]
struct Inode {
    path: Vec<u8>,
    lookups: u64,
}

impl Inodes {
    /// Returns the numbers of a mount whose root is at `path`.
    pub(crate) fn new(path: Vec<u8>) -> Self {
        let INodeNo(root) = INodeNo::ROOT;
        let inode = Inode {
            path: path.clone(),
            lookups: 1,
        };
        Self {
            by_number: BTreeMap::from([(root, inode)]),
            by_path: BTreeMap::from([(path, root)]),
            last: root,
        }
    }

    /// Returns the path of a number.
    pub(crate) fn path(&self, INodeNo(number): INodeNo) -> Option<Vec<u8>> {
        self.by_number.get(&number).map(|inode| inode.path.clone())
    }

    /// Counts a lookup of `path`, and returns its number.
    pub(crate) fn look_up(&mut self, path: &[u8]) -> u64 {
        let number = self.number(path);
        if let Some(inode) = self.by_number.get_mut(&number) {
            inode.lookups += 1;
        }
        number
    }

    /// Returns the number of `path`.
    pub(crate) fn number(&mut self, path: &[u8]) -> u64 {
        if let Some(number) = self.by_path.get(path) {
            return *number;
        }
        self.last += 1;
        let inode = Inode {
            path: path.to_vec(),
            lookups: 0,
        };
        self.by_number.insert(self.last, inode);
        self.by_path.insert(path.to_vec(), self.last);
        self.last
    }

    /// Forgets lookups of a number.
    pub(crate) fn forget(&mut self, INodeNo(number): INodeNo, lookups: u64) {
        let Some(inode) = self.by_number.get_mut(&number) else {
            return;
        };
        inode.lookups = inode.lookups.saturating_sub(lookups);
        if inode.lookups > 0 || INodeNo(number) == INodeNo::ROOT {
            return;
        }
        if let Some(inode) = self.by_number.remove(&number)
            && self.by_path.get(&inode.path) == Some(&number)
        {
            self.by_path.remove(&inode.path);
        }
    }

    /// Notes that the item at `path` was removed. A later one of that name has another number.
    pub(crate) fn remove(&mut self, path: &[u8]) {
        self.by_path.remove(path);
    }

    /// Notes that the item at `from`, with all below it, is now at `to`.
    pub(crate) fn rename(&mut self, from: &[u8], to: &[u8]) {
        self.by_path.remove(to);
        let below = [from, b"/"].concat();
        let moved: Vec<(Vec<u8>, u64)> = self
            .by_path
            .iter()
            .filter(|(path, _)| *path == from || path.starts_with(&below))
            .map(|(path, number)| (path.clone(), *number))
            .collect();
        for (path, number) in moved {
            self.by_path.remove(&path);
            let path = [to, &path[from.len()..]].concat();
            self.by_path.insert(path.clone(), number);
            if let Some(inode) = self.by_number.get_mut(&number) {
                inode.path = path;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renamed_directory_takes_its_contents_along() {
        let mut inodes = Inodes::new(b"/top".to_vec());
        let [a, b, other] = [&b"/top/a"[..], b"/top/a/b", b"/top/ab"].map(|p| inodes.look_up(p));
        inodes.rename(b"/top/a", b"/top/c");
        let path = |number| inodes.path(INodeNo(number)).unwrap();
        assert_eq!(path(a), b"/top/c");
        assert_eq!(path(b), b"/top/c/b");
        assert_eq!(path(other), b"/top/ab");
        assert_ne!(inodes.number(b"/top/a"), a);
    }

    #[test]
    fn number_is_forgotten_after_its_last_lookup() {
        let mut inodes = Inodes::new(Vec::new());
        let number = inodes.look_up(b"a");
        assert_eq!(inodes.look_up(b"a"), number);
        inodes.forget(INodeNo(number), 1);
        assert_eq!(inodes.number(b"a"), number);
        inodes.forget(INodeNo(number), 1);
        assert_eq!(inodes.path(INodeNo(number)), None);
        assert_ne!(inodes.number(b"a"), number);
        inodes.forget(INodeNo::ROOT, 9);
        assert!(inodes.path(INodeNo::ROOT).is_some());
    }

    #[test]
    fn removed_name_gets_another_number() {
        let mut inodes = Inodes::new(Vec::new());
        let old = inodes.look_up(b"a");
        inodes.remove(b"a");
        let new = inodes.look_up(b"a");
        assert_ne!(old, new);
        inodes.forget(INodeNo(old), 1);
        assert_eq!(inodes.look_up(b"a"), new);
    }
}
