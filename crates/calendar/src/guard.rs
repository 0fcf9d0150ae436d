//! Guard times of devices: capacity that a circuit uses after a decrease.
//!
//! A device decreases first, and may use the old rate until the end of its guard time. Only then does a device increase
//! another rate on the same capacity:
//!
//! ```text
//! decreased circuit   #########|-guard-|
//! increased circuit                    |-guard-##########
//!                              ^ decrease: `trail` books the capacity until the end of the guard time
//!                                      ^ increase: nothing is carried until the end of its own guard time
//! ```
//!
//! Each booking takes the guard time of its own device after each of its decreases. So circuits that share a link can
//! have different guard times.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::trc::Step;

use crate::grant::push;

/// Returns the steps with each decrease delayed by a guard time: at each time the highest rate of the last guard time.
pub fn trail(steps: &[Step], guard: Duration) -> Vec<Step> {
    trail_of(steps, |_| guard)
}

/// Returns the steps of a vector, each prolonged by its own guard time.
pub fn trail_of(steps: &[Step], guard: impl Fn(usize) -> Duration) -> Vec<Step> {
    let end = |nth: usize| steps[nth].till + guard(nth);
    let ends = steps.iter().enumerate();
    let points = ends.flat_map(|(nth, step)| [step.from, end(nth)]);
    let mut points: Vec<Instant> = points.collect();
    points.sort_unstable();
    points.dedup();
    let mut found = Vec::new();
    let mut first = 0;
    for pair in points.windows(2) {
        let (from, till) = (pair[0], pair[1]);
        while first < steps.len() && end(first) <= from {
            first += 1;
        }
        let near = (first..steps.len()).take_while(|nth| steps[*nth].from <= from);
        let near = near.filter(|nth| from < end(*nth));
        if let Some(rate) = near.map(|nth| steps[nth].rate).max() {
            push(&mut found, Step { from, till, rate }, true);
        }
    }
    found
}

/// Returns the steps that a booking takes from a time on; each lasts longer by a guard time.
pub(crate) fn taken(steps: &[Step], guard: Duration, from: Instant) -> Cow<'_, [Step]> {
    let mut all = if guard.is_zero() {
        Cow::Borrowed(steps)
    } else {
        Cow::Owned(trail(steps, guard))
    };
    let first = all.partition_point(|step| step.till <= from);
    if all.get(first).is_some_and(|step| step.from < from) {
        let mut rest = all[first..].to_vec();
        rest[0].from = from;
        all = Cow::Owned(rest);
    } else if first > 0 {
        all = Cow::Owned(all[first..].to_vec());
    }
    all
}

#[cfg(test)]
mod tests {
    use lighthaul_base::Rate;
    use proptest::prelude::*;

    use super::*;

    fn at(tick: usize) -> Instant {
        Instant::from_nanos(tick as u64)
    }

    fn steps(rates: &[u64]) -> Vec<Step> {
        let mut steps = Vec::new();
        for (tick, rate) in rates.iter().enumerate() {
            if let Some(rate) = Rate::from_bps(*rate) {
                let (from, till) = (at(tick), at(tick + 1));
                push(&mut steps, Step { from, till, rate }, true);
            }
        }
        steps
    }

    proptest! {
        #[test]
        fn decreases_keep_capacity_in_use_for_a_guard_time(
            rates in prop::collection::vec(0_u64..4, 1..30), guard in 0_usize..6, from in 0_usize..30,
        ) {
            let guard_time = Duration::from_nanos(guard as u64);
            let mut expected: Vec<u64> = (0..rates.len() + guard).map(|tick| {
                let window = tick.saturating_sub(guard)..=tick;
                window.map(|tick| rates.get(tick).copied().unwrap_or(0)).max().unwrap_or(0)
            }).collect();
            let vector = steps(&rates);
            prop_assert_eq!(trail(&vector, guard_time), steps(&expected));
            let past = from.min(expected.len());
            expected[..past].fill(0);
            prop_assert_eq!(&*taken(&vector, guard_time, at(from)), steps(&expected));
        }
    }
}
