//! Which files of a tree are one file with several names.

use std::collections::BTreeMap;

/// Remembers the first name of every file that has more than one, for as long as more may come.
///
/// Memory is bounded: a file is forgotten when all its names have come, and once so many wait that there is
/// no room, new ones are not remembered. Their names then become files of their own: nothing is lost
/// but room, and [`HardLinks::forgone`] says for how many, so that somebody can be told.
#[derive(Debug)]
pub struct HardLinks {
    waiting: BTreeMap<(u64, u64), Waiting>,
    waiting_max: usize,
    forgone: u64,
}

#[derive(Debug)]
struct Waiting {
    first: u64,
    /// Names that have not come yet.
    names: u64,
}

impl Default for HardLinks {
    fn default() -> Self {
        Self::new(WAITING_MAX)
    }
}

impl HardLinks {
    /// A table of at most `waiting_max` files at a time.
    pub fn new(waiting_max: usize) -> Self {
        Self {
            waiting: BTreeMap::new(),
            waiting_max,
            forgone: 0,
        }
    }

    /// Takes note of entry `number`, which is `inode` (device and number) with so many `names` in all.
    /// Answers the number of the entry that was the same file first, if there was one.
    pub fn note(&mut self, inode: (u64, u64), names: u64, number: u64) -> Option<u64> {
        if names < 2 {
            return None;
        }
        if let Some(waiting) = self.waiting.get_mut(&inode) {
            let first = waiting.first;
            waiting.names = waiting.names.saturating_sub(1);
            if waiting.names == 0 {
                self.waiting.remove(&inode);
            }
            return Some(first);
        }
        if self.waiting.len() >= self.waiting_max {
            self.forgone += 1;
            return None;
        }
        let waiting = Waiting {
            first: number,
            names: names - 1,
        };
        self.waiting.insert(inode, waiting);
        None
    }

    /// Names that were not looked up in a full table, and so perhaps are files of their own now.
    pub fn forgone(&self) -> u64 {
        self.forgone
    }
}

/// About 60 MiB.
const WAITING_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_full_table_forgoes_links_and_says_how_many() {
        let mut links = HardLinks::new(1);
        assert_eq!(links.note((1, 1), 2, 0), None);
        assert_eq!(links.note((1, 2), 2, 1), None);
        assert_eq!(links.note((1, 2), 2, 2), None);
        assert_eq!(links.forgone(), 2);
        // all names of the first have come: there is room again
        assert_eq!(links.note((1, 1), 2, 3), Some(0));
        assert_eq!(links.note((1, 3), 2, 4), None);
        assert_eq!(links.note((1, 3), 2, 5), Some(4));
        assert_eq!(links.forgone(), 2);
    }

    proptest! {
        #[test]
        fn every_later_name_finds_the_first(files in prop::collection::vec(0_u64..20, 0..100)) {
            let names = |file| files.iter().filter(|other| **other == file).count() as u64;
            let mut links = HardLinks::default();
            for (number, file) in files.iter().enumerate() {
                let first = files.iter().position(|other| other == file).unwrap();
                let expected = (first < number).then_some(first as u64);
                prop_assert_eq!(links.note((7, *file), names(*file), number as u64), expected);
            }
            // nothing waits for names that have all come
            prop_assert!(links.waiting.is_empty());
        }
    }
}
