//! Which packet each datagram was, as long as nobody knows whether it came.

use alloc::collections::VecDeque;
use core::ops::Range;

/// Datagrams in the order in which they left, of which at most so many are under way.
#[derive(Clone, Debug)]
pub struct Turns {
    /// The turn of the first of them.
    first: u64,
    /// A packet's number, or nothing once the turn is known to be lost.
    numbers: VecDeque<Option<u64>>,
    len_max: usize,
}

impl Turns {
    /// Room for so many that are under way.
    pub const fn new(len_max: usize) -> Self {
        Self {
            first: 0,
            numbers: VecDeque::new(),
            len_max,
        }
    }

    /// How many turns there have been.
    pub fn count(&self) -> u64 {
        self.first + self.numbers.len() as u64
    }

    /// Whether one more may leave.
    pub fn has_room(&self) -> bool {
        self.numbers.len() < self.len_max
    }

    /// Packet `number` leaves; answers in which turn.
    pub fn push(&mut self, number: u64) -> u64 {
        assert!(self.has_room(), "whoever resends asks for room first");
        let turn = self.count();
        self.numbers.push_back(Some(number));
        turn
    }

    /// The packet of a turn that may still come.
    pub fn number(&self, turn: u64) -> Option<u64> {
        let nth = usize::try_from(turn.checked_sub(self.first)?).ok()?;
        self.numbers.get(nth).copied().flatten()
    }

    /// Gives up the turns of a range, and answers their packets.
    pub fn lose(&mut self, range: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let within = |turn: u64| turn.clamp(self.first, self.count()) - self.first;
        let (from, till) = (within(range.start), within(range.end));
        let lost = self.numbers.range_mut(from as usize..till as usize);
        lost.filter_map(Option::take)
    }

    /// The packets of all turns from `turn` on that may still come.
    pub fn since(&self, turn: u64) -> impl Iterator<Item = u64> + '_ {
        let from = turn.clamp(self.first, self.count()) - self.first;
        self.numbers.range(from as usize..).flatten().copied()
    }

    /// Forgets all turns below one, which came or were given up; answers whether any came.
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
        fn it_does_what_a_map_does(steps in prop::collection::vec((0_u8..3, 0_u64..40, 0_u64..40), 0..60)) {
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
                prop_assert_eq!(turns.number(one), map.get(&one).copied());
                prop_assert!(turns.since(one).eq(map.range(one..).map(|(_, number)| *number)));
            }
        }
    }
}
