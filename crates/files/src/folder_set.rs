//! Directories of a list, for example those whose contents are skipped.

use std::collections::BTreeSet;

use lighthaul_session::fault::PeerFault;

/// Maximum number of octets of the paths in one set, and of the memory for each path.
const OCTETS_MAX: usize = 128 << 20;
/// Octets that a path takes besides its names.
const PATH: usize = 64;

/// Set of directories. The list of a peer may have parts of many directories in any order, so the set has a limit.
#[derive(Debug, Default)]
pub struct FolderSet {
    paths: BTreeSet<Vec<u8>>,
    octets: usize,
}

impl FolderSet {
    /// Adds a directory. Fails if a peer has caused too many.
    pub fn add(&mut self, path: &[u8]) -> Result<(), PeerFault> {
        if self.paths.contains(path) {
            return Ok(());
        }
        let octets = self.octets + path.len() + PATH;
        if octets > OCTETS_MAX {
            return Err(PeerFault::Invalid(
                "entries of too many directories that cannot be created",
            ));
        }
        self.octets = octets;
        self.paths.insert(path.to_vec());
        Ok(())
    }

    /// Returns true if the set has `path` itself.
    pub fn contains(&self, path: &[u8]) -> bool {
        self.paths.contains(path)
    }

    /// Returns true if the set has a directory above `path`.
    pub fn has_above(&self, path: &[u8]) -> bool {
        let mut slashes = (0..path.len()).filter(|at| path[*at] == b'/');
        !self.paths.is_empty() && slashes.any(|at| self.paths.contains(&path[..at]))
    }

    /// Removes a directory.
    pub fn remove(&mut self, path: &[u8]) {
        if self.paths.remove(path) {
            self.octets -= path.len() + PATH;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_any_directory_of_the_set_are_found() {
        let mut set = FolderSet::default();
        assert!(!set.has_above(b"a/x"));
        for path in [&b"a"[..], b"b/c", b"a"] {
            set.add(path).unwrap();
        }
        for (path, above) in [
            (&b"a"[..], false),
            (b"a/x", true),
            (b"a/x/y", true),
            (b"ab/x", false),
            (b"b/c", false),
            (b"b/d/c", false),
            (b"b/c/d", true),
            (b"x/a/y", false),
        ] {
            assert_eq!(set.has_above(path), above, "{path:?}");
        }
        assert!(set.contains(b"b/c") && !set.contains(b"b"));
        set.remove(b"a");
        set.remove(b"a");
        assert!(!set.has_above(b"a/x") && set.has_above(b"b/c/d"));
        assert_eq!(set.octets, 3 + PATH);
    }

    #[test]
    fn peer_cannot_fill_the_memory() {
        let mut set = FolderSet::default();
        let path = |nth: u64| [&nth.to_be_bytes()[..], &[b'x'; 4000]].concat();
        let added = (0..u64::MAX)
            .take_while(|nth| set.add(&path(*nth)).is_ok())
            .count();
        assert_eq!(added, OCTETS_MAX / (4008 + PATH));
        set.remove(&path(0));
        set.add(&path(u64::MAX)).unwrap();
    }
}
