//! Packets in the datagrams in flight: the packet that each carried, until its fate is known.

use alloc::collections::VecDeque;
use core::ops::Range;

/// Datagrams in order of transmission. Each has a turn, which is its sequence number; at most `len_max` are in
/// flight.
#[derive(Clone, Debug)]
pub struct Turns {
    /// Turn of the first entry of `numbers`.
    first: u64,
    /// Packet number of each turn, or `None` once the turn is known to be lost.
    numbers: VecDeque<Option<u64>>,
    len_max: usize,
}

impl Turns {
    /// Returns an empty record for at most `len_max` datagrams in flight.
    pub const fn new(len_max: usize) -> Self {
        Self {
            first: 0,
            numbers: VecDeque::new(),
            len_max,
        }
    }

    /// Returns the number of turns.
    #[inline]
    pub fn count(&self) -> u64 {
        self.first + self.numbers.len() as u64
    }

    /// True if one more datagram may be sent.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.numbers.len() < self.len_max
    }

    /// Records that packet `number` is sent, and returns its turn. Panics if [`Turns::has_room`] is false.
    #[inline]
    pub fn push(&mut self, number: u64) -> u64 {
        assert!(self.has_room(), "the caller checks has_room first");
        let turn = self.count();
        self.numbers.push_back(Some(number));
        turn
    }

    /// Marks the turns of `range` as lost, and returns their packets.
    pub fn lose(&mut self, range: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let within = |turn: u64| turn.clamp(self.first, self.count()) - self.first;
        let (from, till) = (within(range.start), within(range.end));
        let lost = self.numbers.range_mut(from as usize..till as usize);
        lost.filter_map(Option::take)
    }

    /// Returns the packets of all turns from `turn` on that are not marked as lost.
    pub fn since(&self, turn: u64) -> impl Iterator<Item = u64> + '_ {
        let from = turn.clamp(self.first, self.count()) - self.first;
        self.numbers.range(from as usize..).flatten().copied()
    }

    /// Forgets all turns below `turn`, which arrived or are lost. Returns true if any of them was not lost.
    pub fn forget_below(&mut self, turn: u64) -> bool {
        let known = turn.clamp(self.first, self.count()) - self.first;
        self.first += known;
        let over = self.numbers.drain(..known as usize);
        over.flatten().count() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn turns_match_a_reference_map(steps in prop::collection::vec((0_u8..3, 0_u64..40, 0_u64..40), 0..60)) {
            let mut turns = Turns::new(1000);
            let (mut map, mut count) = (BTreeMap::new(), 0);
            for (what, one, other) in steps {
                let range = one.min(other)..one.max(other);
                match what {
                    0 => {
                        prop_assert_eq!(turns.push(one), count);
                        map.insert(count, one);
                        count += 1;
                    }
                    1 => {
                        let lost: Vec<u64> = turns.lose(range.clone()).collect();
                        let known: Vec<u64> = map.range(range.clone()).map(|(_, number)| *number).collect();
                        prop_assert_eq!(lost, known);
                        map.retain(|turn, _| !range.contains(turn));
                    }
                    _ => {
                        let any_came = map.range(..one).next().is_some();
                        prop_assert_eq!(turns.forget_below(one), any_came);
                        map.retain(|turn, _| *turn >= one);
                    }
                }
                prop_assert_eq!(turns.count(), count);
                prop_assert!(turns.since(one).eq(map.range(one..).map(|(_, number)| *number)));
            }
        }
    }
}
