//! Packet-switched reference models to compare circuits with (section 3.3 of the paper).
//!
//! Each function takes all arrivals in order of time and returns the end of each file.

use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use lighthaul_base::Instant;

use crate::grant::work;

/// A file to transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Arrival time.
    pub at: Instant,
    /// Work, in the unit of [`crate::Need::work`].
    pub work: u128,
    /// Highest rate of the file's hosts, in bits a second.
    pub most: u64,
}

impl Arrival {
    /// Returns the duration at the highest rate.
    pub(crate) fn alone(&self) -> Duration {
        let nanos = self.work.div_ceil(u128::from(self.most.max(1)));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Simulates the paper's packet switch: one unbounded FIFO queue that a link of `bps` empties. Each
/// file enters at its highest rate.
///
/// The queue is modeled as a fluid, which differs from 1500-octet packets by less than a millionth.
/// The last bit of a file waits for the queue level at its arrival.
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

/// Simulates ideal max-min fair sharing, the goal of congestion control. No file exceeds its
/// highest rate.
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

/// Files with the same highest rate, which receive equal service.
#[derive(Debug, Default)]
struct Group {
    rate: u64,
    /// Work that a file present from the beginning would have received.
    served: u128,
    /// Value of `served` at which each file ends.
    files: BinaryHeap<Reverse<(u128, usize)>>,
}

impl Group {
    /// Returns the end of the group's first file if the rates do not change.
    fn over(&self, now: Instant) -> Instant {
        let Some(Reverse((over, _))) = self.files.peek().filter(|_| self.rate > 0) else {
            return Instant::NEVER;
        };
        let nanos = (over - self.served).div_ceil(u128::from(self.rate));
        now + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Sets the fair rate of each group. The slowest groups come first, because others divide their
/// unused rate.
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
    fn fifo_and_fair_sharing_match_small_examples() {
        let files = [(0, 100, 10), (0, 100, 10), (50, 10, 1)].map(arrival);
        // 20 bits a nanosecond arrive and 10 leave: at 10 ns the level is 100, which drains by 20
        // ns
        assert_eq!(nanos(&fifo(&files, 10)), [20, 20, 60]);
        assert_eq!(nanos(&fair(&files, 10)), [20, 20, 60]);
        let files = [(0, 100, 10), (0, 10, 1), (5, 10, 10)].map(arrival);
        // the slow file keeps rate 1; the others have 9, then 4 each
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

    /// Simulates a queue of single bits, nanosecond by nanosecond.
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
        fn fifo_matches_a_queue_of_single_bits(files in arrivals(), bps in 5_u64..20) {
            prop_assert_eq!(nanos(&fifo(&files, bps)), bit_by_bit(&files, bps));
        }

        #[test]
        fn fair_sharing_respects_file_rates_and_keeps_the_link_busy(files in arrivals(), bps in 40_u64..60) {
            let ends = fair(&files, bps);
            let mut last = Instant::ZERO;
            for (file, end) in files.iter().zip(&ends) {
                prop_assert!(*end >= file.at + file.alone());
                last = last.max(*end);
            }
            // the link carries all work, and no more than that by the last end
            let total: u128 = files.iter().map(|file| file.work).sum();
            prop_assert!(work(bps, Instant::ZERO, last) >= total);
            let same: Vec<Arrival> = files.iter().map(|file| Arrival { at: Instant::ZERO, most: 60, ..*file }).collect();
            // with equal arrivals and no rate limits, smaller files end first
            let mut order: Vec<_> = same.iter().map(|file| file.work).zip(fair(&same, bps)).collect();
            order.sort_unstable();
            prop_assert!(order.windows(2).all(|pair| pair[0].1 <= pair[1].1));
        }
    }
}
