//! Missing packets as a list of ranges.
//!
//! SABUL and VBTP keep a [`LossList`] on both sides and send it in their NAKs. Its memory is
//! bounded: the list has at most `ranges_max` ranges. At that limit it errs on the safe side.
//! [`LossList::insert`] fails, and [`LossList::remove`] keeps a packet that would split a range, so
//! it is sent once more. Lookups take time logarithmic in the number of ranges. Numbers are
//! positions of packets in the object.

use alloc::collections::BTreeMap;
use core::ops::Range;

/// Set of packet numbers, stored as ranges that neither overlap nor touch. The number of ranges is bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossList {
    /// End of each range by its start.
    ranges: BTreeMap<u64, u64>,
    ranges_max: usize,
    packets: u64,
}

impl LossList {
    /// Returns an empty list of at most `ranges_max` ranges.
    pub const fn new(ranges_max: usize) -> Self {
        Self {
            ranges: BTreeMap::new(),
            ranges_max,
            packets: 0,
        }
    }

    /// Returns the number of missing packets.
    #[inline]
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// True if no packet is missing.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Returns the number of ranges.
    #[inline]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the maximum number of ranges.
    pub const fn len_max(&self) -> usize {
        self.ranges_max
    }

    /// Returns the ranges in ascending order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|(from, till)| *from..*till)
    }

    /// Returns the first missing packet.
    #[inline]
    pub fn first(&self) -> Option<u64> {
        self.ranges.keys().next().copied()
    }

    /// Returns the first range at or after `number`, clipped to begin there.
    #[inline]
    pub fn next(&self, number: u64) -> Option<Range<u64>> {
        let around = self.ranges.range(..=number).next_back();
        if let Some((_, till)) = around.filter(|(_, till)| **till > number) {
            return Some(number..*till);
        }
        let (from, till) = self.ranges.range(number..).next()?;
        Some(*from..*till)
    }

    /// True if packet `number` is missing.
    #[inline]
    pub fn contains(&self, number: u64) -> bool {
        self.next(number).is_some_and(|range| range.start == number)
    }

    /// Adds all of `range`, and returns the number of packets that were not in the list before. Returns `None`, and
    /// changes nothing, if there would be too many ranges.
    pub fn insert(&mut self, range: Range<u64>) -> Option<u64> {
        if range.is_empty() {
            return Some(0);
        }
        let Range {
            start: mut from,
            end: mut till,
        } = range;
        let touching = || self.ranges.range(..=range.end).rev();
        let touched = touching().take_while(|(_, end)| **end >= range.start);
        let (mut merged, mut known) = (0, 0);
        for (start, end) in touched {
            merged += 1;
            known += end - start;
            from = from.min(*start);
            till = till.max(*end);
        }
        if self.ranges.len() + 1 - merged > self.ranges_max {
            return None;
        }
        for _ in 0..merged {
            if let Some((start, _)) = self.ranges.range(..=range.end).next_back() {
                let start = *start;
                self.ranges.remove(&start);
            }
        }
        self.ranges.insert(from, till);
        let new = till - from - known;
        self.packets += new;
        Some(new)
    }

    /// Removes packet `number`, and returns true if it was removed. A packet inside a range stays in the list if the
    /// split would exceed the number of ranges; it has to be received again.
    pub fn remove(&mut self, number: u64) -> bool {
        let Some((from, till)) = self.around(number) else {
            return false;
        };
        let amid = from < number && number + 1 < till;
        if amid && self.ranges.len() >= self.ranges_max {
            return false;
        }
        self.ranges.remove(&from);
        if from < number {
            self.ranges.insert(from, number);
        }
        if number + 1 < till {
            self.ranges.insert(number + 1, till);
        }
        self.packets -= 1;
        true
    }

    /// Removes all packets below `number`.
    pub fn remove_below(&mut self, number: u64) {
        while let Some((from, till)) = self.ranges.pop_first() {
            if till <= number {
                self.packets -= till - from;
                continue;
            }
            let kept = from.max(number);
            self.packets -= kept - from;
            self.ranges.insert(kept, till);
            break;
        }
    }

    /// Removes the first packet, and returns it.
    pub fn pop_first(&mut self) -> Option<u64> {
        let first = self.first()?;
        self.remove(first);
        Some(first)
    }

    fn around(&self, number: u64) -> Option<(u64, u64)> {
        let (from, till) = self.ranges.range(..=number).next_back()?;
        (*till > number).then_some((*from, *till))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(Range<u64>),
        Remove(u64),
        Below(u64),
        Pop,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..60_u64, 0..9_u64).prop_map(|(from, len)| Step::Insert(from..from + len)),
            (0..60_u64).prop_map(Step::Remove),
            (0..60_u64).prop_map(Step::Below),
            Just(Step::Pop),
        ]
    }

    proptest! {
        #[test]
        fn loss_list_matches_a_set(steps in prop::collection::vec(step(), 0..80)) {
            let mut list = LossList::new(1000);
            let mut set: BTreeSet<u64> = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Insert(range) => {
                        let new = range.clone().filter(|number| set.insert(*number)).count();
                        prop_assert_eq!(list.insert(range), Some(new as u64));
                    }
                    Step::Remove(number) => prop_assert_eq!(list.remove(number), set.remove(&number)),
                    Step::Below(number) => {
                        list.remove_below(number);
                        set.retain(|kept| *kept >= number);
                    }
                    Step::Pop => prop_assert_eq!(list.pop_first(), set.pop_first()),
                }
                let numbers: Vec<u64> = list.ranges().flatten().collect();
                prop_assert_eq!(numbers, set.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(list.packets(), set.len() as u64);
                let ranges: Vec<_> = list.ranges().collect();
                prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
                for number in 0..70 {
                    prop_assert_eq!(list.contains(number), set.contains(&number));
                    let next = set.range(number..).next().copied();
                    prop_assert_eq!(list.next(number).map(|range| range.start), next);
                }
            }
        }
    }

    #[test]
    fn number_of_ranges_is_bounded() {
        let mut list = LossList::new(2);
        assert_eq!(list.insert(0..2), Some(2));
        assert_eq!(list.insert(4..6), Some(2));
        assert_eq!(list.insert(8..9), None);
        assert_eq!(list.packets(), 4);
        assert_eq!(list.insert(2..4), Some(2));
        assert_eq!(list.insert(8..9), Some(1));
        assert!(
            !list.remove(3),
            "the split of 0..6 exceeds the number of ranges"
        );
        assert!(list.remove(0) && list.remove(8) && list.remove(3));
        assert_eq!(list.ranges().collect::<Vec<_>>(), [1..3, 4..6]);
    }
}
