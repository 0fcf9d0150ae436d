//! Detection of hard links: names of the same file.

use std::collections::BTreeMap;

use lighthaul_fs::version::Look;

/// Table of files with several names. It holds the first name of each until all names were found.
///
/// Memory is bounded. A file is removed from the table when all its names were found. New files are
/// not added to a full table, so their names become separate files. [`HardLinks::dropped`] counts
/// these names for a message to the user.
#[derive(Debug)]
pub struct HardLinks {
    waiting: BTreeMap<(u64, u64), Waiting>,
    waiting_max: usize,
    dropped: u64,
}

#[derive(Debug)]
struct Waiting {
    first: u64,
    /// Size and time of the file at its first name.
    look: Look,
    /// Names that were not found yet.
    names: u64,
}

impl Default for HardLinks {
    fn default() -> Self {
        Self::new(WAITING_MAX)
    }
}

impl HardLinks {
    /// Creates a table of at most `waiting_max` files.
    pub fn new(waiting_max: usize) -> Self {
        Self {
            waiting: BTreeMap::new(),
            waiting_max,
            dropped: 0,
        }
    }

    /// Records entry `number`, which is `inode` (device and number) with `names` names in total.
    /// Returns the number of the first entry of the same file, if there is one. A file with another size or time is
    /// another file, or has changed: file systems soon use the numbers of removed files again.
    pub fn record(
        &mut self,
        (inode, look): ((u64, u64), Look),
        names: u64,
        number: u64,
    ) -> Option<u64> {
        if names < 2 {
            return None;
        }
        let known = self.waiting.get_mut(&inode);
        let is_known = known.is_some();
        if let Some(waiting) = known.filter(|waiting| waiting.look == look) {
            let first = waiting.first;
            waiting.names = waiting.names.saturating_sub(1);
            if waiting.names == 0 {
                self.waiting.remove(&inode);
            }
            return Some(first);
        }
        if !is_known && self.waiting.len() >= self.waiting_max {
            self.dropped += 1;
            return None;
        }
        let waiting = Waiting {
            first: number,
            look,
            names: names - 1,
        };
        self.waiting.insert(inode, waiting);
        None
    }

    /// Returns the number of names that a full table did not record. They may have become separate
    /// files.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Maximum number of files in the table, which take about 60 MiB.
const WAITING_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns an inode with the given number, and its size and time.
    fn inode(number: u64) -> ((u64, u64), Look) {
        let look = Look {
            size: 5,
            seconds: 1,
            nanos: 2,
        };
        ((1, number), look)
    }

    #[test]
    fn another_file_with_a_number_that_is_used_again_is_no_link() {
        let mut links = HardLinks::new(1);
        let old = inode(1);
        for change in [
            |look: &mut Look| look.size += 1,
            |look: &mut Look| look.seconds += 1,
            |look: &mut Look| look.nanos += 1,
        ] {
            let mut new = old;
            change(&mut new.1);
            assert_eq!(links.record(old, 3, 0), None);
            assert_eq!(links.record(old, 3, 1), Some(0));
            assert_eq!(links.record(new, 2, 2), None, "another file");
            assert_eq!(links.record(new, 2, 3), Some(2));
        }
        assert_eq!(links.dropped(), 0);
    }

    #[test]
    fn full_table_reports_the_number_of_unrecorded_names() {
        let mut links = HardLinks::new(1);
        assert_eq!(links.record(inode(1), 2, 0), None);
        assert_eq!(links.record(inode(2), 2, 1), None);
        assert_eq!(links.record(inode(2), 2, 2), None);
        assert_eq!(links.dropped(), 2);
        // all names of the first file were found, so there is room again
        assert_eq!(links.record(inode(1), 2, 3), Some(0));
        assert_eq!(links.record(inode(3), 2, 4), None);
        assert_eq!(links.record(inode(3), 2, 5), Some(4));
        assert_eq!(links.dropped(), 2);
    }

    proptest! {
        #[test]
        fn every_later_name_finds_the_first(files in prop::collection::vec(0_u64..20, 0..100)) {
            let names = |file| files.iter().filter(|other| **other == file).count() as u64;
            let mut links = HardLinks::default();
            for (number, file) in files.iter().enumerate() {
                let first = files.iter().position(|other| other == file).unwrap();
                let expected = (first < number).then_some(first as u64);
                prop_assert_eq!(links.record(inode(*file), names(*file), number as u64), expected);
            }
            // no file waits after all its names were found
            prop_assert!(links.waiting.is_empty());
        }
    }
}
