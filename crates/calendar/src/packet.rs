//! What packets would do: references to compare circuits with (section 3.3 of the paper). They are told all arrivals, in
//! the order of time, and say when each file is over.

use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use lighthaul_base::Instant;

use crate::grant::work;

/// A file that is to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it is asked for.
    pub at: Instant,
    /// What it is, as [`crate::Need::work`] counts.
    pub work: u128,
    /// The most bits a second that its hosts can move.
    pub most: u64,
}

impl Arrival {
    /// How long it takes at its most.
    pub(crate) fn alone(&self) -> Duration {
        let nanos = self.work.div_ceil(u128::from(self.most.max(1)));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// The paper's packet switch: each file comes at its most into one endless queue that a link of `bps` empties in turn. Packets
/// are as small as can be (with 1500 octets the error is below a millionth), so that the queue is a level that rises and
/// falls, and the last bit of a file waits for what is in front of it.
pub fn fifo(arrivals: &[Arrival], bps: u64) -> Vec<Instant> {
    let mut ends = vec![Instant::NEVER; arrivals.len()];
    let mut sources = BinaryHeap::new();
    let (mut now, mut level, mut coming) = (Instant::ZERO, 0_u128, 0_u128);
    let mut flow = |level: &mut u128, coming: u128, at: Instant| {
        let nanos = u128::from(at.as_nanos() - now.as_nanos());
        *level = (*level + coming * nanos).saturating_sub(u128::from(bps) * nanos);
        now = at;
    };
    let mut next = arrivals.iter().enumerate().peekable();
    loop {
        let arrives = next
            .peek()
            .map_or(Instant::NEVER, |(_, arrival)| arrival.at);
        let stops = sources
            .peek()
            .map_or(Instant::NEVER, |Reverse((at, _))| *at);
        if stops <= arrives {
            let Some(Reverse((at, nth))) = sources.pop() else {
                return ends;
            };
            flow(&mut level, coming, at);
            let arrival: &Arrival = &arrivals[nth];
            coming -= u128::from(arrival.most);
            let wait = level.div_ceil(u128::from(bps.max(1)));
            ends[nth] = at + Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX));
        } else if let Some((nth, arrival)) = next.next() {
            flow(&mut level, coming, arrival.at);
            coming += u128::from(arrival.most);
            sources.push(Reverse((arrival.at + arrival.alone(), nth)));
        }
    }
}

/// Ideal fair sharing, which congestion control tries for: at each moment what one file has can only grow at the cost of one
/// that has no more (max-min), and none has more than its most.
pub fn fair(arrivals: &[Arrival], bps: u64) -> Vec<Instant> {
    let mut ends = vec![Instant::NEVER; arrivals.len()];
    let mut groups: BTreeMap<u64, Group> = BTreeMap::new();
    let mut now = Instant::ZERO;
    let mut next = arrivals.iter().enumerate().peekable();
    loop {
        share(&mut groups, bps);
        let arrives = next
            .peek()
            .map_or(Instant::NEVER, |(_, arrival)| arrival.at);
        let over = groups.values().map(|group| group.over(now)).min();
        let at = arrives.min(over.unwrap_or(Instant::NEVER));
        if at == Instant::NEVER {
            return ends;
        }
        for group in groups.values_mut() {
            group.served += work(group.rate, now, at);
            while let Some(Reverse((_, nth))) =
                group.files.peek().filter(|file| file.0.0 <= group.served)
            {
                ends[*nth] = at;
                group.files.pop();
            }
        }
        now = at;
        while let Some((nth, arrival)) = next.next_if(|(_, arrival)| arrival.at <= now) {
            let group = groups.entry(arrival.most).or_default();
            group
                .files
                .push(Reverse((group.served + arrival.work, nth)));
        }
    }
}

/// Files of one most, which are all served alike.
#[derive(Debug, Default)]
struct Group {
    rate: u64,
    /// What a file would have been served that was there from the beginning on.
    served: u128,
    /// What will have been served when each is over.
    files: BinaryHeap<Reverse<(u128, usize)>>,
}

impl Group {
    /// When its first file is over if nothing changes.
    fn over(&self, now: Instant) -> Instant {
        let Some(Reverse((over, _))) = self.files.peek().filter(|_| self.rate > 0) else {
            return Instant::NEVER;
        };
        let nanos = (over - self.served).div_ceil(u128::from(self.rate));
        now + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Gives each group what is fair: the slowest first, since what they cannot use is for the others.
fn share(groups: &mut BTreeMap<u64, Group>, bps: u64) {
    let mut files: u64 = groups.values().map(|group| group.files.len() as u64).sum();
    let mut left = bps;
    for (most, group) in groups
        .iter_mut()
        .filter(|(_, group)| !group.files.is_empty())
    {
        group.rate = (left / files).min(*most);
        left -= group.rate * group.files.len() as u64;
        files -= group.files.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arrival((at, bits, most): (u64, u64, u64)) -> Arrival {
        Arrival {
            at: Instant::from_nanos(at),
            work: u128::from(bits),
            most,
        }
    }

    fn nanos(ends: &[Instant]) -> Vec<u64> {
        ends.iter().map(|end| end.as_nanos()).collect()
    }

    #[test]
    fn a_queue_serves_in_turn_and_fairness_shares() {
        let files = [(0, 100, 10), (0, 100, 10), (50, 10, 1)].map(arrival);
        // 20 bits a nanosecond come and 10 go: at 10 there are 100, gone at 20
        assert_eq!(nanos(&fifo(&files, 10)), [20, 20, 60]);
        assert_eq!(nanos(&fair(&files, 10)), [20, 20, 60]);
        let files = [(0, 100, 10), (0, 10, 1), (5, 10, 10)].map(arrival);
        // the slow one keeps its 1; the others have 9, then 4 each
        assert_eq!(nanos(&fair(&files, 10)), [13, 10, 8]);
        assert_eq!(nanos(&fifo(&files, 10)), [12, 12, 8]);
    }

    fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
        prop::collection::vec((0_u64..40, 1_u64..300, 1_u64..12), 1..30).prop_map(|files| {
            let mut at = 0;
            let files = files.into_iter().map(|(gap, bits, most)| {
                at += gap;
                arrival((at, bits, most))
            });
            files.collect()
        })
    }

    /// A queue of single bits that are sent one by one: `per` a nanosecond come from each file.
    fn bit_by_bit(files: &[Arrival], bps: u64) -> Vec<u64> {
        let (mut level, mut ends) = (0, vec![0; files.len()]);
        for now in 0..20_000 {
            for (file, end) in files.iter().zip(&mut ends) {
                if file.at + file.alone() == Instant::from_nanos(now) {
                    *end = now + u64::div_ceil(level, bps);
                }
            }
            let here = files
                .iter()
                .filter(|f| (f.at..f.at + f.alone()).contains(&Instant::from_nanos(now)));
            level = (level + here.map(|file| file.most).sum::<u64>()).saturating_sub(bps);
        }
        ends
    }

    proptest! {
        #[test]
        fn the_level_is_that_of_a_queue_of_bits(files in arrivals(), bps in 5_u64..20) {
            prop_assert_eq!(nanos(&fifo(&files, bps)), bit_by_bit(&files, bps));
        }

        #[test]
        fn nobody_is_served_faster_than_alone_and_the_link_does_not_idle(files in arrivals(), bps in 40_u64..60) {
            let ends = fair(&files, bps);
            let mut last = Instant::ZERO;
            for (file, end) in files.iter().zip(&ends) {
                prop_assert!(*end >= file.at + file.alone());
                last = last.max(*end);
            }
            // all of it passes the link, and when the last is over no more than that
            let total: u128 = files.iter().map(|file| file.work).sum();
            prop_assert!(work(bps, Instant::ZERO, last) >= total);
            let same: Vec<Arrival> = files.iter().map(|file| Arrival { at: Instant::ZERO, most: 60, ..*file }).collect();
            // from one moment on and without a most, the smallest is over first
            let mut order: Vec<_> = same.iter().map(|file| file.work).zip(fair(&same, bps)).collect();
            order.sort_unstable();
            prop_assert!(order.windows(2).all(|pair| pair[0].1 <= pair[1].1));
        }
    }
}
