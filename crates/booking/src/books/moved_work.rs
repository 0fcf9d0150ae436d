//! Work of moved reservations in each window, against the quotas of their owners.
//!
//! A move may put work into another day. `MovedWork` has the changes of the moves that are not stored yet, so that several
//! moves together stay within a quota.

use std::collections::BTreeMap;

use lighthaul_booking_client::json::{Step, Timestamp};

use super::config::Config;
use super::usage::{Usage, WORK_PER_BYTE, parts};

/// Changes of the work of owners, by window.
#[derive(Debug, Default)]
pub(super) struct MovedWork<'a> {
    added: BTreeMap<(u64, &'a str), u128>,
    removed: BTreeMap<(u64, &'a str), u128>,
}

/// Steps of one reservation before and after a move.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkMove<'a, 's> {
    pub(super) owner: &'a str,
    /// Steps before the move.
    pub(super) was: &'s [Step],
    /// The part of them that still counts.
    pub(super) counted: &'s [Step],
    /// Steps after the move.
    pub(super) new: &'s [Step],
}

impl<'a> MovedWork<'a> {
    /// Returns true if each window has either room for the work of a move, or no more of it than before.
    pub(super) fn may_have(&self, config: &Config, usage: &Usage, one: &WorkMove<'a, '_>) -> bool {
        let most = config.quota_of(one.owner).bytes;
        if most == u64::MAX {
            return true;
        }
        let [was, counted] = [one.was, one.counted].map(|steps| parts(config, steps));
        let new = parts(config, one.new);
        new.into_iter().all(|(window, work)| {
            let key = (window, one.owner);
            let of = |parts: &BTreeMap<u64, u128>| parts.get(&window).copied().unwrap_or(0);
            let of_moves = |moves: &BTreeMap<_, u128>| moves.get(&key).copied().unwrap_or(0);
            let all = usage.work(window, one.owner) + of_moves(&self.added);
            let others = all.saturating_sub(of_moves(&self.removed) + of(&counted));
            work <= of(&was) || (others + work) / WORK_PER_BYTE <= u128::from(most)
        })
    }

    /// Counts a move.
    pub(super) fn count(&mut self, config: &Config, one: &WorkMove<'a, '_>) {
        if config.quota_of(one.owner).bytes == u64::MAX {
            return;
        }
        for (sums, steps) in [(&mut self.removed, one.counted), (&mut self.added, one.new)] {
            for (window, work) in parts(config, steps) {
                *sums.entry((window, one.owner)).or_default() += work;
            }
        }
    }
}

/// Returns the parts of steps before a time and after it.
pub(super) fn split(steps: &[Step], at: Timestamp) -> [Vec<Step>; 2] {
    let before = |step: &Step| Step {
        till: step.till.min(at),
        ..*step
    };
    let after = |step: &Step| Step {
        from: step.from.max(at),
        ..*step
    };
    let is_step = |step: &Step| step.from < step.till;
    [
        steps.iter().map(before).filter(is_step).collect(),
        steps.iter().map(after).filter(is_step).collect(),
    ]
}
