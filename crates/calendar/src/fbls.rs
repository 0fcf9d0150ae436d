//! FBLS: one fixed rate for a whole transfer (section 3.3 of the VBLS paper).

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use lighthaul_base::Instant;

use crate::packet::Arrival;
use crate::view::View;

/// Advances the view to the first time with `bps` free for `long`, ending by `till`, and returns that time.
///
/// This discipline can promise an end when it books. It fills gaps between bookings and moves none.
pub(crate) fn earliest(
    view: &mut View<'_>,
    bps: u64,
    long: Duration,
    till: Instant,
) -> Option<Instant> {
    loop {
        view.seek_at_least(bps);
        let (from, end) = (view.now(), view.now() + long);
        if end > till {
            return None;
        }
        let below = view.next_below(bps);
        if below >= end {
            return Some(from);
        }
        view.seek(below);
    }
}

/// Order in which waiting files may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueOrder {
    /// First come, first served: a file that does not fit blocks later files.
    FirstCome,
    /// The first files that fit start. A file with a high rate may wait forever while others
    /// overtake it.
    SkipAhead,
}

/// Simulates a scheduler without advance booking: each file starts at its highest rate when a link
/// of `bps` has that much free. Returns the end of each file, [`Instant::NEVER`] if its rate
/// exceeds the link.
pub fn at_run_time(arrivals: &[Arrival], bps: u64, order: QueueOrder) -> Vec<Instant> {
    let mut ends = vec![Instant::NEVER; arrivals.len()];
    let mut waiting: VecDeque<usize> = VecDeque::new();
    let mut running = BinaryHeap::new();
    let mut free = bps;
    let mut next = arrivals.iter().enumerate().peekable();
    loop {
        let arrives = next
            .peek()
            .map_or(Instant::NEVER, |(_, arrival)| arrival.at);
        let ends_next = running
            .peek()
            .map_or(Instant::NEVER, |Reverse((at, _))| *at);
        let now = arrives.min(ends_next);
        if now == Instant::NEVER {
            return ends;
        }
        while let Some(Reverse((_, nth))) = running
            .peek()
            .filter(|run: &&Reverse<(Instant, usize)>| run.0.0 <= now)
        {
            free += arrivals[*nth].most;
            running.pop();
        }
        while let Some((nth, _)) = next.next_if(|(_, arrival)| arrival.at <= now) {
            waiting.push_back(nth);
        }
        let mut blocked = false;
        waiting.retain(|nth| {
            let arrival = &arrivals[*nth];
            let starts = arrival.most <= free && !blocked;
            if starts {
                free -= arrival.most;
                ends[*nth] = now + arrival.alone();
                running.push(Reverse((ends[*nth], *nth)));
            }
            blocked |= !starts && order == QueueOrder::FirstCome;
            !starts
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skip_ahead_overtakes_a_file_with_a_high_rate() {
        let files = [(0, 60, 6), (1, 80, 8), (2, 12, 4)].map(|(at, work, most)| Arrival {
            at: Instant::from_nanos(at),
            work,
            most,
        });
        let ends = |order| {
            at_run_time(&files, 10, order)
                .iter()
                .map(|end| end.as_nanos())
                .collect::<Vec<_>>()
        };
        assert_eq!(ends(QueueOrder::FirstCome), [10, 20, 23]);
        assert_eq!(ends(QueueOrder::SkipAhead), [10, 20, 5]);
        let wide = [Arrival {
            most: 11,
            ..files[0]
        }];
        assert_eq!(
            at_run_time(&wide, 10, QueueOrder::SkipAhead),
            [Instant::NEVER]
        );
    }
}
