//! Merge of two streams of records by their keys, as Lambda Merge (SABUL paper, section 6).
//!
//! Each stream has a window: its latest records that have no partner yet. A record that arrives is looked up in the window of
//! the other stream. Two records with one key meet if no more than a window of later records came between them.
#![expect(
    clippy::disallowed_types,
    reason = "keys are looked up, and never iterated"
)]

use std::collections::{HashMap, VecDeque};

/// One of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Windows of both streams, and counts.
#[derive(Debug)]
pub(crate) struct Merge<T> {
    records_max: usize,
    windows: [Window<T>; 2],
    pub(crate) matched: u64,
    /// Records that have left their window without a partner.
    pub(crate) alone: u64,
}

#[derive(Debug)]
struct Window<T> {
    records: HashMap<u64, T>,
    /// Keys in the order of their arrival. A key with a partner stays until it is the oldest.
    order: VecDeque<u64>,
}

impl<T> Merge<T> {
    /// Returns a merge with windows of `records_max` records.
    pub(crate) fn new(records_max: usize) -> Self {
        let window = || Window {
            records: HashMap::with_capacity(records_max),
            order: VecDeque::with_capacity(records_max),
        };
        Self {
            records_max,
            windows: [window(), window()],
            matched: 0,
            alone: 0,
        }
    }

    /// Adds a record. Returns the record of the other stream with the same key, if it is in its window. A second record
    /// with the same key replaces the first.
    pub(crate) fn push(&mut self, side: Side, key: u64, record: T) -> Option<T> {
        let [left, right] = &mut self.windows;
        let (own, other) = match side {
            Side::Left => (left, right),
            Side::Right => (right, left),
        };
        let partner = other.records.remove(&key);
        own.order.push_back(key);
        if partner.is_some() {
            self.matched += 1;
        } else if own.records.insert(key, record).is_some() {
            self.alone += 1;
        }
        if own.order.len() > self.records_max {
            let oldest = own.order.pop_front();
            let left_alone = oldest.and_then(|key| own.records.remove(&key));
            self.alone += u64::from(left_alone.is_some());
        }
        partner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Merges by comparing each record with all records of the other window.
    fn reference(records_max: usize, pushes: &[(Side, u64)]) -> u64 {
        let mut windows: [Vec<(u64, bool)>; 2] = [Vec::new(), Vec::new()];
        let mut matched = 0;
        for (side, key) in pushes {
            let (own, other) = (
                usize::from(*side == Side::Right),
                usize::from(*side == Side::Left),
            );
            let partner = windows[other]
                .iter_mut()
                .find(|(other, taken)| other == key && !taken);
            let is_matched = partner.is_some();
            if let Some(partner) = partner {
                partner.1 = true;
                matched += 1;
            }
            windows[own].push((*key, is_matched));
            if windows[own].len() > records_max {
                windows[own].remove(0);
            }
        }
        matched
    }

    #[test]
    fn merge_matches_what_a_comparison_of_all_records_matches() {
        for seed in 0..50 {
            let mut rng = lighthaul_base::Rng::new(seed);
            let mut keys: [Vec<u64>; 2] = [(0..300).collect(), (0..300).collect()];
            for keys in &mut keys {
                for _ in 0..rng.below(200) {
                    let (from, to) = (rng.below(300) as usize, rng.below(300) as usize);
                    keys.swap(from, to);
                }
            }
            let pairs = keys[0].iter().zip(&keys[1]);
            let pushes: Vec<(Side, u64)> = pairs
                .flat_map(|(left, right)| [(Side::Left, *left), (Side::Right, *right)])
                .collect();
            let records_max = 1 + rng.below(60) as usize;
            let mut merge = Merge::new(records_max);
            for (side, key) in &pushes {
                let partner = merge.push(*side, *key, *key);
                assert!(partner.is_none_or(|partner| partner == *key), "seed {seed}");
            }
            assert_eq!(
                merge.matched,
                reference(records_max, &pushes),
                "seed {seed}"
            );
            assert!(
                merge
                    .windows
                    .iter()
                    .all(|window| window.order.len() <= records_max)
            );
        }
    }

    #[test]
    fn record_that_leaves_its_window_is_counted_alone() {
        let mut merge = Merge::new(2);
        for key in 0..3 {
            assert_eq!(merge.push(Side::Left, key, ()), None);
        }
        assert_eq!((merge.alone, merge.matched), (1, 0));
        assert_eq!(merge.push(Side::Right, 0, ()), None);
        assert_eq!(merge.push(Side::Right, 2, ()), Some(()));
        assert_eq!((merge.alone, merge.matched), (1, 1));
    }
}
