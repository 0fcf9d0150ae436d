//! Waiting callers by site, so that the largest crowd makes room first.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_base::prefix::Prefix;

/// Numbers of callers, grouped by the site that they call from. A lower number came earlier.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    sites: BTreeMap<Prefix, BTreeSet<u64>>,
    /// How many each site has, largest last.
    sizes: BTreeSet<(usize, Prefix)>,
}

impl Crowd {
    /// Adds caller `number` from `site`.
    pub(crate) fn add(&mut self, site: Prefix, number: u64) {
        let callers = self.sites.entry(site).or_default();
        self.sizes.remove(&(callers.len(), site));
        callers.insert(number);
        self.sizes.insert((callers.len(), site));
    }

    /// Removes caller `number` from `site`; returns whether it was there.
    pub(crate) fn remove(&mut self, site: Prefix, number: u64) -> bool {
        let Some(callers) = self.sites.get_mut(&site) else {
            return false;
        };
        let len = callers.len();
        if !callers.remove(&number) {
            return false;
        }
        self.sizes.remove(&(len, site));
        if callers.is_empty() {
            self.sites.remove(&site);
        } else {
            self.sizes.insert((len - 1, site));
        }
        true
    }

    /// The caller that has waited longest of the site with most callers.
    pub(crate) fn oldest_of_largest(&self) -> Option<u64> {
        let (_, site) = self.sizes.last()?;
        self.sites.get(site)?.first().copied()
    }

    /// The caller that has waited longest of `site`, if it has at least `count`.
    pub(crate) fn oldest_of(&self, site: Prefix, count: usize) -> Option<u64> {
        let callers = self.sites.get(&site)?;
        callers.first().filter(|_| callers.len() >= count).copied()
    }

    /// How many `site` has.
    #[cfg(test)]
    pub(crate) fn count(&self, site: Prefix) -> usize {
        self.sites.get(&site).map_or(0, BTreeSet::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_the_largest_site_makes_room() {
        let site = |last: u8| Prefix::of([10, 0, last, 0].into(), 24);
        let mut crowd = Crowd::default();
        for (number, of) in [(0, 1), (1, 2), (2, 2), (3, 3)] {
            crowd.add(site(of), number);
        }
        assert_eq!(crowd.oldest_of_largest(), Some(1));
        assert!(crowd.remove(site(2), 1) && !crowd.remove(site(2), 1));
        assert_eq!(crowd.oldest_of(site(2), 1), Some(2));
        assert_eq!(crowd.oldest_of(site(2), 2), None);
        crowd.add(site(1), 9);
        assert_eq!(crowd.oldest_of_largest(), Some(0));
        assert_eq!((crowd.count(site(1)), crowd.count(site(4))), (2, 0));
    }
}
