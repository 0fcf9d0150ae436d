//! Inode numbers of paths.
//!
//! The kernel names files by numbers, and the server by paths. A number keeps its path until the kernel has forgotten
//! all lookups of it. A renamed directory takes the paths below it along.
//!
//! The kernel keeps pages and sizes by number. So a file that is removed or replaced leaves its number to the programs
//! that have it open.

use std::collections::BTreeMap;

use fuser::{FileAttr, INodeNo};
use lighthaul_files::request::{FileInfo, FileKind};
use lighthaul_remote_files::message::FileVersion;

use crate::attributes::attributes;

/// Paths by numbers, and numbers by paths.
#[derive(Debug)]
pub(crate) struct Inodes {
    by_number: BTreeMap<u64, Inode>,
    by_path: BTreeMap<Vec<u8>, u64>,
    last: u64,
}

#[derive(Debug, Default)]
struct Inode {
    path: Vec<u8>,
    lookups: u64,
    /// True after the item was removed or replaced.
    is_gone: bool,
    /// Device and inode number at the server, once known.
    identity: Option<(u64, u64)>,
    /// Attributes that the kernel has.
    last: Option<FileAttr>,
    /// Versions that programs read.
    open: Vec<FileVersion>,
}

impl Inodes {
    /// Returns the numbers of a mount whose root is at `path`.
    pub(crate) fn new(path: Vec<u8>) -> Self {
        let INodeNo(root) = INodeNo::ROOT;
        let inode = Inode {
            path: path.clone(),
            lookups: 1,
            ..Inode::default()
        };
        Self {
            by_number: BTreeMap::from([(root, inode)]),
            by_path: BTreeMap::from([(path, root)]),
            last: root,
        }
    }

    /// Returns the path of a number, unless its item was removed or replaced.
    pub(crate) fn path(&self, INodeNo(number): INodeNo) -> Option<Vec<u8>> {
        let inode = self.by_number.get(&number);
        let inode = inode.filter(|inode| !inode.is_gone);
        inode.map(|inode| inode.path.clone())
    }

    /// Counts a lookup of `path`, where the given version of the item was found, and returns its attributes.
    pub(crate) fn look_up(
        &mut self,
        path: &[u8],
        info: &FileInfo,
        version: Option<FileVersion>,
    ) -> FileAttr {
        if let (Some(number), Some(version)) = (self.by_path.get(path), version) {
            self.is_still(INodeNo(*number), version);
        }
        let number = self.number(path);
        if let Some(version) = version {
            self.adopt(INodeNo(number), version);
        }
        self.count_lookup(number, info)
    }

    /// Counts a lookup of `path`, at which a list of the directory has the item, and returns its attributes.
    pub(crate) fn look_up_listed(&mut self, path: &[u8], info: &FileInfo) -> FileAttr {
        // a list has no versions
        if let Some(number) = self.by_path.get(path).copied()
            && info.kind == FileKind::File
            && let Some(inode) = self.by_number.get(&number)
            && !inode.open.is_empty()
            && inode.last.is_some_and(|last| last.size != info.size)
        {
            self.replace(INodeNo(number));
        }
        let number = self.number(path);
        self.count_lookup(number, info)
    }

    fn count_lookup(&mut self, number: u64, info: &FileInfo) -> FileAttr {
        let found = attributes(number, info);
        if let Some(inode) = self.by_number.get_mut(&number) {
            inode.lookups += 1;
            inode.last = Some(found);
        }
        found
    }

    /// Returns the number of `path`.
    pub(crate) fn number(&mut self, path: &[u8]) -> u64 {
        if let Some(number) = self.by_path.get(path) {
            return *number;
        }
        self.last += 1;
        let inode = Inode {
            path: path.to_vec(),
            ..Inode::default()
        };
        self.by_number.insert(self.last, inode);
        self.by_path.insert(path.to_vec(), self.last);
        self.last
    }

    /// Returns true if the item of a number is still at its path, at which `version` was found. Otherwise the path gets
    /// another number.
    pub(crate) fn is_still(&mut self, number: INodeNo, version: FileVersion) -> bool {
        let identity = Some((version.device, version.inode));
        let Some(inode) = self.by_number.get_mut(&number.0) else {
            return false;
        };
        if inode.identity.is_some() && inode.identity != identity {
            self.replace(number);
            return false;
        }
        inode.identity = identity;
        !inode.is_gone
    }

    /// Notes the version of the item of a number.
    pub(crate) fn adopt(&mut self, INodeNo(number): INodeNo, version: FileVersion) {
        if let Some(inode) = self.by_number.get_mut(&number) {
            inode.identity = Some((version.device, version.inode));
        }
    }

    /// Keeps a number for the programs that have its item open. A later lookup of the path gets another number.
    pub(crate) fn replace(&mut self, INodeNo(number): INodeNo) {
        let Some(inode) = self.by_number.get_mut(&number) else {
            return;
        };
        if INodeNo(number) == INodeNo::ROOT {
            return;
        }
        inode.is_gone = true;
        if self.by_path.get(&inode.path) == Some(&number) {
            self.by_path.remove(&inode.path);
        }
    }

    /// Notes that a program reads a version. Returns true if all programs that read the item read this version.
    pub(crate) fn open(&mut self, INodeNo(number): INodeNo, version: FileVersion) -> bool {
        let Some(inode) = self.by_number.get_mut(&number) else {
            return false;
        };
        inode.open.push(version);
        inode.open.iter().all(|open| *open == version)
    }

    /// Notes that a program has closed a version.
    pub(crate) fn close(&mut self, INodeNo(number): INodeNo, version: FileVersion) {
        if let Some(inode) = self.by_number.get_mut(&number)
            && let Some(nth) = inode.open.iter().position(|open| *open == version)
        {
            inode.open.swap_remove(nth);
        }
    }

    /// Returns true if a program reads the item of a number.
    pub(crate) fn is_read(&self, INodeNo(number): INodeNo) -> bool {
        let inode = self.by_number.get(&number);
        inode.is_some_and(|inode| !inode.open.is_empty())
    }

    /// Returns the attributes that the kernel has of a number.
    pub(crate) fn last(&self, INodeNo(number): INodeNo) -> Option<FileAttr> {
        self.by_number.get(&number)?.last
    }

    /// Notes the attributes that the kernel gets of a number.
    pub(crate) fn remember(&mut self, INodeNo(number): INodeNo, attributes: FileAttr) {
        if let Some(inode) = self.by_number.get_mut(&number) {
            inode.last = Some(attributes);
        }
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
        if let Some(number) = self.by_path.get(path) {
            self.replace(INodeNo(*number));
        }
    }

    /// Notes that the item at `from`, with all below it, is now at `to`.
    pub(crate) fn rename(&mut self, from: &[u8], to: &[u8]) {
        self.remove(to);
        let below = below(from);
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

/// Returns the beginning of all paths below the directory at `path`.
pub(crate) fn below(path: &[u8]) -> Vec<u8> {
    [path, b"/"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn version(inode: u64, size: u64) -> FileVersion {
        FileVersion {
            device: 1,
            inode,
            changed: 0,
            size,
            seconds: 0,
            nanos: 0,
        }
    }

    fn file(size: u64) -> FileInfo {
        FileInfo {
            path: Vec::new(),
            kind: FileKind::File,
            size,
            mode: 0o644,
            user: 0,
            group: 0,
            seconds: 0,
            nanos: 0,
        }
    }

    fn look_up(inodes: &mut Inodes, path: &[u8]) -> u64 {
        inodes.look_up(path, &file(0), None).ino.0
    }

    #[test]
    fn programs_that_read_a_replaced_file_keep_its_inode_number() {
        let mut inodes = Inodes::new(Vec::new());
        let old = inodes.look_up(b"a", &file(9), Some(version(1, 9))).ino;
        assert!(inodes.is_still(old, version(1, 9)));
        assert!(inodes.open(old, version(1, 9)));
        // changed in place: the same file, but not the same pages
        assert!(inodes.is_still(old, version(1, 10)));
        assert!(!inodes.open(old, version(1, 10)));
        inodes.close(old, version(1, 10));
        let new = inodes.look_up(b"a", &file(5), Some(version(2, 5))).ino;
        assert_ne!(old, new);
        assert_eq!(
            (inodes.path(old), inodes.path(new).unwrap()),
            (None, b"a".to_vec())
        );
        assert_eq!(inodes.last(old).unwrap().size, 9);
        assert!(inodes.is_read(old) && !inodes.is_read(new));
        // a list shows another size
        assert!(inodes.open(new, version(2, 5)));
        let listed = inodes.look_up_listed(b"a", &file(6)).ino;
        assert_ne!(listed, new);
        assert_eq!(inodes.look_up_listed(b"a", &file(7)).ino, listed);
        // a commit through the mount is no replacement
        inodes.adopt(listed, version(3, 7));
        assert!(inodes.is_still(listed, version(3, 7)));
    }

    #[test]
    fn renamed_directory_changes_the_paths_of_its_contents() {
        let mut inodes = Inodes::new(b"/top".to_vec());
        let [a, b, other] =
            [&b"/top/a"[..], b"/top/a/b", b"/top/ab"].map(|p| look_up(&mut inodes, p));
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
        let number = look_up(&mut inodes, b"a");
        assert_eq!(look_up(&mut inodes, b"a"), number);
        inodes.forget(INodeNo(number), 1);
        assert_eq!(inodes.number(b"a"), number);
        inodes.forget(INodeNo(number), 1);
        assert_eq!(inodes.path(INodeNo(number)), None);
        assert_ne!(inodes.number(b"a"), number);
        inodes.forget(INodeNo::ROOT, 9);
        assert!(inodes.path(INodeNo::ROOT).is_some());
    }

    #[test]
    fn removed_path_gets_another_inode_number() {
        let mut inodes = Inodes::new(Vec::new());
        let old = look_up(&mut inodes, b"a");
        inodes.remove(b"a");
        let new = look_up(&mut inodes, b"a");
        assert_ne!(old, new);
        inodes.forget(INodeNo(old), 1);
        assert_eq!(look_up(&mut inodes, b"a"), new);
    }
}
