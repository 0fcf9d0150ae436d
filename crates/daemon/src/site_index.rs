//! Waiting connections by site, so that the largest site loses connections first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use lighthaul_base::prefix::Prefix;

/// Numbers of connections by site. A lower number came earlier.
#[derive(Debug, Default)]
pub(crate) struct SiteIndex {
    sites: BTreeMap<Prefix, BTreeSet<u64>>,
    /// Sites in the order of eviction, the first last.
    ranks: BTreeSet<Rank>,
    /// Oldest connection of each site, with the site.
    oldest: BTreeSet<(u64, Prefix)>,
    count: usize,
}

/// Rank of a site: number of its connections, its oldest connection, and the site. Of two sites of equal size, the one
/// with the older connection has the higher rank.
type Rank = (usize, Reverse<u64>, Prefix);

fn rank(site: Prefix, connections: &BTreeSet<u64>) -> Option<Rank> {
    let oldest = connections.first()?;
    Some((connections.len(), Reverse(*oldest), site))
}

impl SiteIndex {
    /// Adds connection `number` from `site`.
    pub(crate) fn add(&mut self, site: Prefix, number: u64) {
        let connections = self.sites.entry(site).or_default();
        if let Some(before) = rank(site, connections) {
            self.oldest.remove(&(before.1.0, site));
            self.ranks.remove(&before);
        }
        self.count += usize::from(connections.insert(number));
        let after = rank(site, connections);
        self.oldest.extend(after.map(|after| (after.1.0, site)));
        self.ranks.extend(after);
    }

    /// Removes connection `number` from `site`. Returns false if it was not listed.
    pub(crate) fn remove(&mut self, site: Prefix, number: u64) -> bool {
        let Some(connections) = self.sites.get_mut(&site) else {
            return false;
        };
        let before = rank(site, connections);
        if !connections.remove(&number) {
            return false;
        }
        self.count -= 1;
        if let Some(before) = before {
            self.oldest.remove(&(before.1.0, site));
            self.ranks.remove(&before);
        }
        let after = rank(site, connections);
        self.oldest.extend(after.map(|after| (after.1.0, site)));
        self.ranks.extend(after);
        if connections.is_empty() {
            self.sites.remove(&site);
        }
        true
    }

    /// Returns the oldest connection of the largest site; if several sites are largest, the oldest of them all.
    pub(crate) fn oldest_of_largest(&self) -> Option<u64> {
        let (_, Reverse(oldest), _) = self.ranks.last()?;
        Some(*oldest)
    }

    /// Returns the oldest connection of each site, with the site, in the order of arrival.
    pub(crate) fn by_age(&self) -> impl Iterator<Item = (u64, Prefix)> + '_ {
        self.oldest.iter().copied()
    }

    /// Returns the oldest connection of `site`, if the site has at least `count`.
    pub(crate) fn oldest_of(&self, site: Prefix, count: usize) -> Option<u64> {
        let connections = self.sites.get(&site)?;
        connections
            .first()
            .filter(|_| connections.len() >= count)
            .copied()
    }

    /// Returns the number of connections.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// Reports whether no connection is listed.
    pub(crate) fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// Returns the number of connections of `site`.
    #[cfg(test)]
    pub(crate) fn count(&self, site: Prefix) -> usize {
        self.sites.get(&site).map_or(0, BTreeSet::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_connection_of_the_largest_site_is_found() {
        let site = |last: u8| Prefix::of([10, 0, last, 0].into(), 24);
        let mut index = SiteIndex::default();
        assert!(index.is_empty());
        for (number, of) in [(0, 1), (1, 2), (2, 2), (3, 3)] {
            index.add(site(of), number);
        }
        assert_eq!(index.oldest_of_largest(), Some(1));
        assert!(index.remove(site(2), 1) && !index.remove(site(2), 1));
        assert_eq!(index.oldest_of(site(2), 1), Some(2));
        assert_eq!(index.oldest_of(site(2), 2), None);
        index.add(site(1), 9);
        assert_eq!(index.oldest_of_largest(), Some(0));
        let by_age: Vec<_> = index.by_age().collect();
        assert_eq!(by_age, [(0, site(1)), (2, site(2)), (3, site(3))]);
        assert_eq!((index.count(site(1)), index.count(site(4))), (2, 0));
        assert_eq!(index.len(), 4);
    }

    #[test]
    fn oldest_connection_is_found_among_sites_of_equal_size() {
        let mut index = SiteIndex::default();
        // the highest address came in the middle
        let sites = [9_u8, 3, 255, 1, 7];
        let site = |nth: usize| Prefix::of([10, sites[nth], 0, 0].into(), 24);
        for nth in 0..sites.len() {
            index.add(site(nth), nth as u64);
        }
        for nth in 0..sites.len() {
            assert_eq!(index.oldest_of_largest(), Some(nth as u64));
            assert!(!index.is_empty());
            assert!(index.remove(site(nth), nth as u64));
        }
        assert_eq!(index.oldest_of_largest(), None);
        assert!(index.is_empty());
    }
}
