//! Files with several names that this copy writes in place or keeps.
//!
//! With `--inplace`, two names of one file at the target can belong to different files of the
//! source. Each name then needs a file of its own: a name that comes second gets a new file, so that
//! the content under the first name stays.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of files in the table. More of them are written as new files.
const FILES_MAX: usize = 1 << 20;

/// Device and inode number of a file.
type Inode = (u64, u64);

/// Table of files with several names, by inode.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    files: BTreeMap<Inode, Claim>,
    /// True if a kept file is missing in the table.
    is_full: bool,
}

/// Role of a file in this copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// File in place, under at least one of its names.
    Kept,
    /// File that the entry with the given number is written to.
    Written(u64),
}

impl Claims {
    /// Claims a file for writing entry `number`. Returns false if the file has another role, so
    /// that the entry needs a new file.
    pub(crate) fn write(&self, inode: Inode, number: u64) -> bool {
        let mut table = self.lock();
        match table.files.get(&inode) {
            Some(claim) => *claim == Claim::Written(number),
            None => !table.is_full && table.add(inode, Claim::Written(number)),
        }
    }

    /// Claims a file that is in place. Returns false if an entry is written to it.
    pub(crate) fn keep(&self, inode: Inode) -> bool {
        let mut table = self.lock();
        if let Some(claim) = table.files.get(&inode) {
            return *claim == Claim::Kept;
        }
        table.is_full |= !table.add(inode, Claim::Kept);
        true
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Adds a file. Returns false if the table is full.
    fn add(&mut self, inode: Inode, claim: Claim) -> bool {
        let fits = self.files.len() < FILES_MAX;
        if fits {
            self.files.insert(inode, claim);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_either_written_by_a_single_entry_or_kept() {
        let claims = Claims::default();
        assert!(claims.write((1, 1), 7) && claims.write((1, 1), 7));
        assert!(!claims.write((1, 1), 8) && !claims.keep((1, 1)));
        assert!(claims.keep((1, 2)) && claims.keep((1, 2)));
        assert!(!claims.write((1, 2), 7));
        assert!(claims.write((2, 1), 8));
    }

    #[test]
    fn full_table_lets_no_file_be_overwritten() {
        let claims = Claims::default();
        for number in 0..FILES_MAX as u64 - 1 {
            assert!(claims.write((1, number), number));
        }
        assert!(claims.write((2, 1), 0) && !claims.write((2, 2), 0));
        assert!(claims.keep((2, 2)) && !claims.write((2, 2), 0));
        assert!(claims.write((2, 1), 0) && !claims.keep((2, 1)));
    }
}
