//! Set of separate ranges of a file, from which a peer takes parts.
//!
//! `SpanSet` holds ranges that are owed, in bytes: begin, and the byte after the end.
//! `SpanSet::take` accepts only a part within one range, so that no byte is sent twice or without a
//! request. A part from the middle splits a range. Beyond `SPANS_MAX` ranges nothing can be taken,
//! which bounds the memory that a peer can cause.

use std::collections::BTreeMap;

use lighthaul_files::object::Span;

/// Maximum number of separate ranges of one file. An honest sender takes them from the front, so that few are split.
pub const SPANS_MAX: usize = 1 << 18;

/// Ranges that do not overlap. Adjacent ones stay separate.
#[derive(Debug, Default)]
pub struct SpanSet {
    /// Ends by begins.
    spans: BTreeMap<u64, u64>,
    bytes: u64,
}

impl SpanSet {
    /// Returns true if the set has no range.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the number of ranges.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Joins all ranges to one range that covers them.
    pub fn join(&mut self) {
        let ends = self
            .spans
            .keys()
            .next()
            .zip(self.spans.values().next_back());
        if let Some((from, till)) = ends {
            let span = (*from, *till);
            *self = Self::default();
            self.insert(span);
        }
    }

    /// Returns the sum of the lengths.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a range. Those that it overlaps become one range with it, so that no byte is lost or
    /// counted twice: after [`Self::join`], a range may be added that is within the joined one.
    pub fn insert(&mut self, (mut from, mut till): Span) {
        while let Some((other, end)) = self.overlapping((from, till)) {
            self.spans.remove(&other);
            self.bytes -= end - other;
            (from, till) = (from.min(other), till.max(end));
        }
        self.spans.insert(from, till);
        self.bytes += till - from;
    }

    /// Returns a range that overlaps `span`, if any.
    fn overlapping(&self, (from, till): Span) -> Option<Span> {
        let (other, end) = self.spans.range(..till).next_back()?;
        (from < *end).then_some((*other, *end))
    }

    /// Removes `part`. Returns false if it is not within one range.
    pub fn take(&mut self, part: Span) -> bool {
        if self.spans.len() > SPANS_MAX || part.0 >= part.1 {
            return false;
        }
        let there = self.spans.range(..=part.0).next_back();
        let Some((from, till)) = there.map(|(from, till)| (*from, *till)) else {
            return false;
        };
        if part.1 > till {
            return false;
        }
        self.spans.remove(&from);
        if from < part.0 {
            self.spans.insert(from, part.0);
        }
        if part.1 < till {
            self.spans.insert(part.1, till);
        }
        self.bytes -= part.1 - part.0;
        true
    }
}

impl From<&[Span]> for SpanSet {
    fn from(spans: &[Span]) -> Self {
        let mut set = Self::default();
        for span in spans {
            set.insert(*span);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_of_a_file_are_bounded() {
        let count = SPANS_MAX as u64;
        let spans: Vec<Span> = (0..count).map(|nth| (4 * nth, 4 * nth + 3)).collect();
        let mut set = SpanSet::from(spans.as_slice());
        assert!(set.take((1, 2)));
        assert!(
            !set.take((4, 5)),
            "an honest sender does not split a file into so many ranges"
        );
    }

    #[test]
    fn joined_ranges_become_a_single_range() {
        let mut set = SpanSet::default();
        set.join();
        assert!(set.is_empty());
        assert_eq!((set.len(), set.bytes()), (0, 0));
        for span in [(2, 9), (12, 13)] {
            set.insert(span);
        }
        assert!(!set.is_empty());
        assert_eq!((set.len(), set.bytes()), (2, 8));
        set.join();
        assert_eq!((set.len(), set.bytes()), (1, 11));
        assert!(set.take((2, 13)) && set.is_empty());
    }

    #[test]
    fn adjacent_ranges_stay_separate() {
        for spans in [[(0, 2), (2, 5)], [(2, 5), (0, 2)]] {
            let set = SpanSet::from(spans.as_slice());
            assert_eq!((set.len(), set.bytes()), (2, 5));
        }
    }

    #[test]
    fn range_within_a_joined_range_does_not_shrink_it() {
        for part in [(2, 5), (4, 5), (5, 13)] {
            let mut set = SpanSet::from([(2, 9), (12, 13)].as_slice());
            set.join();
            set.insert(part);
            assert_eq!((set.len(), set.bytes()), (1, 11), "{part:?}");
            assert!(set.take((9, 13)) && set.take((2, 9)), "{part:?}");
            assert_eq!((set.len(), set.bytes()), (0, 0), "{part:?}");
        }
    }

    proptest! {
        #[test]
        fn set_has_every_byte_that_was_inserted(
            spans in prop::collection::vec((0_u64..60, 1_u64..20), 1..12),
        ) {
            let mut set = SpanSet::default();
            for (from, len) in &spans {
                set.insert((*from, from + len));
            }
            let is_in = |byte: &u64| spans.iter().any(|(from, len)| (*from..from + len).contains(byte));
            let has = |byte: &u64| set.spans.iter().any(|(from, till)| (*from..*till).contains(byte));
            prop_assert!((0..80).all(|byte| is_in(&byte) == has(&byte)));
            prop_assert_eq!(set.bytes(), (0..80).filter(is_in).count() as u64);
            prop_assert!(set.spans.values().zip(set.spans.keys().skip(1)).all(|(till, next)| till <= next));
        }

        #[test]
        fn part_is_removed_only_from_within_a_single_range(
            cuts in prop::collection::btree_set(0_u64..60, 0..12),
            parts in prop::collection::vec((0_u64..60, 0_u64..9), 1..20),
        ) {
            let cuts: Vec<u64> = cuts.into_iter().collect();
            let pairs = cuts.chunks_exact(2);
            let spans: Vec<Span> = pairs.map(|pair| (pair[0], pair[1])).collect();
            let mut set = SpanSet::from(spans.as_slice());
            let list = |set: &SpanSet| -> Vec<Span> { set.spans.clone().into_iter().collect() };
            for (from, len) in parts {
                let part = (from, from + len);
                let within = |byte: &u64, spans: &[Span]| spans.iter().any(|(f, t)| (*f..*t).contains(byte));
                let before = list(&set);
                let fits = len > 0 && (part.0..part.1).all(|byte| within(&byte, &before));
                // adjacent ranges stay separate: a part across both is in neither
                let one = before.iter().any(|(f, t)| *f <= part.0 && part.1 <= *t);
                prop_assert_eq!(set.take(part), fits && one);
                let after = list(&set);
                for byte in 0..70 {
                    let taken = fits && one && (part.0..part.1).contains(&byte);
                    prop_assert_eq!(within(&byte, &after), within(&byte, &before) && !taken);
                }
                prop_assert!(after.iter().all(|(f, t)| f < t));
                prop_assert!(after.is_sorted());
                prop_assert_eq!(set.bytes(), (0..70).filter(|byte| within(byte, &after)).count() as u64);
            }
        }
    }
}
