//! Memory that owners share: when the memory is full, the largest owner loses its oldest entry.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_booking_client::json::Timestamp;

/// Entries of each owner by time and key, with their memory use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryShares<K: Ord> {
    owners: BTreeMap<String, Share<K>>,
    /// Owners by memory use.
    by_size: BTreeSet<(u64, String)>,
    bytes: u64,
    count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Share<K: Ord> {
    bytes: u64,
    kept: BTreeMap<(Timestamp, K), u64>,
}

impl<K: Ord> Default for MemoryShares<K> {
    fn default() -> Self {
        Self {
            owners: BTreeMap::new(),
            by_size: BTreeSet::new(),
            bytes: 0,
            count: 0,
        }
    }
}

impl<K: Ord + Clone> MemoryShares<K> {
    /// Adds an entry of an owner that uses `bytes` bytes.
    pub(crate) fn add(&mut self, owner: &str, key: (Timestamp, K), bytes: u64) {
        self.remove(owner, &key);
        self.change(owner, |share| {
            share.kept.insert(key, bytes);
            share.bytes += bytes;
        });
    }

    /// Removes an entry, if it exists.
    pub(crate) fn remove(&mut self, owner: &str, key: &(Timestamp, K)) {
        let has = |share: &Share<K>| share.kept.contains_key(key);
        if self.owners.get(owner).is_some_and(has) {
            self.change(owner, |share| {
                let bytes = share.kept.remove(key);
                share.bytes -= bytes.unwrap_or(0);
            });
        }
    }

    /// Returns the next entry to delete if all entries use more than `most` bytes.
    pub(crate) fn beyond(&self, most: u64) -> Option<K> {
        if self.bytes <= most {
            return None;
        }
        self.oldest().map(|(_, (_, key))| key.clone())
    }

    /// Removes the next entry to delete if all entries use more than `most` bytes, or are more than `count_max`. Returns
    /// its owner and its key.
    pub(crate) fn take_beyond(&mut self, most: u64, count_max: u64) -> Option<(String, K)> {
        if self.bytes <= most && self.count <= count_max {
            return None;
        }
        let (owner, key) = self.oldest()?;
        let (owner, key) = (owner.clone(), key.clone());
        self.remove(&owner, &key);
        Some((owner, key.1))
    }

    /// Returns the oldest entry of the owner with the most.
    fn oldest(&self) -> Option<(&String, &(Timestamp, K))> {
        let (_, owner) = self.by_size.last()?;
        let key = self.owners.get(owner)?.kept.keys().next()?;
        Some((owner, key))
    }

    fn change(&mut self, owner: &str, act: impl FnOnce(&mut Share<K>)) {
        let mut share = self.owners.remove(owner).unwrap_or_else(|| Share {
            bytes: 0,
            kept: BTreeMap::new(),
        });
        self.by_size.remove(&(share.bytes, owner.to_owned()));
        self.bytes -= share.bytes;
        self.count -= share.kept.len() as u64;
        act(&mut share);
        self.bytes += share.bytes;
        self.count += share.kept.len() as u64;
        if !share.kept.is_empty() {
            self.by_size.insert((share.bytes, owner.to_owned()));
            self.owners.insert(owner.to_owned(), share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_entries_of_the_largest_owner_are_deleted_first() {
        let mut shares = MemoryShares::default();
        shares.add("ada", (Timestamp(1), 1), 10);
        for nth in 2..6 {
            shares.add("eve", (Timestamp(nth), nth), 10);
        }
        let mut gone = Vec::new();
        while let Some(nth) = shares.beyond(15) {
            let owner = if nth == 1 { "ada" } else { "eve" };
            shares.remove(owner, &(Timestamp(nth), nth));
            gone.push(nth);
        }
        assert_eq!(
            gone,
            [2, 3, 4, 5],
            "ada always uses less, and equal owners are ordered by name"
        );
        shares.remove("ada", &(Timestamp(1), 1));
        assert_eq!(shares, MemoryShares::default());
    }

    #[test]
    fn entry_that_is_added_twice_uses_memory_once() {
        let mut shares = MemoryShares::default();
        shares.add("ada", (Timestamp(1), 1), 10);
        shares.add("ada", (Timestamp(1), 1), 4);
        assert_eq!((shares.beyond(4), shares.beyond(3)), (None, Some(1)));
    }
}
