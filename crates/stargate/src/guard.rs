//! Guard time of a device between a decrease and an increase that uses the same capacity.
//!
//! The device decreases first. The old rate may be in use for a guard time. Only then does a device increase another
//! rate, which carries nothing for the guard time of its own device:
//!
//! ```text
//! decreased circuit   #########|-guard-|
//! increased circuit                    |-guard-##########
//!                              ^ decrease: [`trail`](lighthaul_calendar::guard::trail) books the capacity until then
//!                                      ^ increase
//!                                              ^ `Losses::guard` counts until here
//! ```
//!
//! Each circuit books the guard time of its own device after each of its decreases. So the circuits that share a link
//! can have different guard times, and each one waits for the other. [`usable`] offers what is free for a guard time
//! longer.

use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::trc::Step;
use lighthaul_base::{Instant, Rate};

/// Returns the capacity in `from..till` that stays free for a guard time: at each time the lowest rate until its end.
/// Nothing is free in gaps between the steps, and after them.
pub(crate) fn usable(
    steps: &[Step],
    guard: Duration,
    (from, till): (Instant, Instant),
) -> Vec<Step> {
    let pieces = pieces(steps, from);
    let ends = pieces
        .iter()
        .flat_map(|piece| [piece.from - guard, piece.till]);
    let inside = ends.filter(|at| from < *at && *at < till);
    let points = sorted(inside.chain([from, till]).collect());
    let mut found = Vec::new();
    let mut first = 0;
    for pair in points.windows(2) {
        let (from, till) = (pair[0], pair[1]);
        while pieces.get(first).is_some_and(|one| one.till <= from) {
            first += 1;
        }
        let near = pieces[first..].iter();
        let near = near.take_while(|one| one.from - guard <= from);
        let least = near.map(|one| one.rate).min().flatten();
        push(&mut found, from, till, least);
    }
    found
}

/// Part of a capacity function, perhaps without capacity.
struct Piece {
    from: Instant,
    till: Instant,
    rate: Option<Rate>,
}

/// Returns the steps and the gaps between them, from a time on.
fn pieces(steps: &[Step], known: Instant) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = known;
    for step in steps {
        if at < step.from {
            pieces.push(Piece {
                from: at,
                till: step.from,
                rate: None,
            });
        }
        pieces.push(Piece {
            from: step.from,
            till: step.till,
            rate: Some(step.rate),
        });
        at = step.till;
    }
    pieces.push(Piece {
        from: at,
        till: Instant::NEVER,
        rate: None,
    });
    pieces
}

fn sorted(mut points: Vec<Instant>) -> Vec<Instant> {
    points.sort_unstable();
    points.dedup();
    points
}

/// Appends a step, merged with the last one if both continue at one rate.
fn push(steps: &mut Vec<Step>, from: Instant, till: Instant, rate: Option<Rate>) {
    let Some(rate) = rate else {
        return;
    };
    match steps.last_mut() {
        Some(last) if last.till == from && last.rate == rate => last.till = till,
        Some(_) | None => steps.push(Step { from, till, rate }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(tick: usize) -> Instant {
        Instant::from_nanos(tick as u64)
    }

    fn steps(rates: &[u64]) -> Vec<Step> {
        let mut steps = Vec::new();
        for (tick, rate) in rates.iter().enumerate() {
            push(&mut steps, at(tick), at(tick + 1), Rate::from_bps(*rate));
        }
        steps
    }

    proptest! {
        #[test]
        fn usable_capacity_stays_free_for_a_guard_time(
            rates in prop::collection::vec(0_u64..4, 1..30), guard in 0_usize..6, from in 0_usize..8, ticks in 1_usize..30,
        ) {
            let till = from + ticks;
            let known: Vec<u64> = (0..rates.len()).map(|tick| if tick < from { 0 } else { rates[tick] }).collect();
            let expected: Vec<u64> = (0..till).map(|tick| {
                let window = tick..=tick + guard;
                let least = window.map(|tick| known.get(tick).copied().unwrap_or(0)).min();
                if tick < from { 0 } else { least.unwrap_or(0) }
            }).collect();
            let guard_time = Duration::from_nanos(guard as u64);
            prop_assert_eq!(usable(&steps(&known), guard_time, (at(from), at(till))), steps(&expected));
        }
    }
}
