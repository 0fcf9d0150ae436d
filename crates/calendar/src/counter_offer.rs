//! Counter-offers for a transfer that cannot end by its deadline.

use alloc::sync::Arc;
use core::time::Duration;

use lighthaul_base::{Instant, Rate};

use crate::path::Path;
use crate::plan::{Goal, Planner, Search};
use crate::refusal::CounterOffer;
use crate::request::Need;

impl Planner<'_> {
    /// Returns the largest amount and the lowest rate increase with which the transfer would end by
    /// its deadline.
    pub(crate) fn counter_offer(
        &self,
        search: &Search,
        paths: &[Arc<Path>],
        need: Need,
        deadline: Instant,
    ) -> CounterOffer {
        let search = Search {
            till: self.config.slot_until(deadline).min(search.till),
            ..*search
        };
        let in_time =
            |search: &Search| search.from < search.till && self.best(search, paths).is_ok();
        let (amount, part): (u64, &dyn Fn(u64) -> Need) = match need {
            Need::Size { bytes, margin_ppm } => {
                (bytes, &move |bytes| Need::Size { bytes, margin_ppm })
            }
            Need::Hold(time) => {
                let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                (nanos, &|nanos| Need::Hold(Duration::from_nanos(nanos)))
            }
        };
        let less = last(amount, |amount| {
            let goal = match search.goal {
                Goal::Carry(_) => Goal::Carry(part(amount).work()),
                Goal::Fixed(_) => Goal::Fixed(part(amount).work()),
                Goal::Hold(_) => Goal::Hold(Duration::from_nanos(amount)),
            };
            in_time(&Search { goal, ..search })
        });
        CounterOffer {
            end: None,
            most: less.map(part),
            rate_max: faster(&search, paths, in_time),
        }
    }
}

/// Returns the lowest rate above the requested one with which the transfer would end in time.
fn faster(search: &Search, paths: &[Arc<Path>], in_time: impl Fn(&Search) -> bool) -> Option<Rate> {
    if matches!(search.goal, Goal::Hold(_)) {
        return None;
    }
    let channel = paths.iter().map(|path| path.channel).min()?;
    let most = paths.iter().map(|path| path.capacity).max()? / channel;
    // a lower rate carries less by the deadline, so the search varies the reduction in channels
    let with = |slower: u64| (most - (slower - 1)) * channel;
    let slower = last(most.saturating_sub(search.most / channel), |slower| {
        in_time(&Search {
            most: with(slower),
            ..*search
        })
    })?;
    Rate::from_bps(with(slower))
}

/// Returns the largest number in `1..=most` for which `holds` is true, if `holds` is true for all smaller numbers.
fn last(most: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut good, mut bad) = (0, most.saturating_add(1));
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if holds(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    (good > 0).then_some(good)
}
