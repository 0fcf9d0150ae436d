//! Grant: rates that are promised to a booking.
//!
//! A [`Grant`] is a [`Path`] and steps of constant rate. Devices need a guard time after each
//! increase, in which the additional rate carries nothing:
//!
//! ```text
//! held rate      |‾‾‾‾‾‾‾‾‾|     steps, joined: reserved at links
//! carrying rate  .....|‾‾‾‾|     carrying_steps, trc: usable by a transfer
//! ```
//!
//! Work is in bits per second times nanoseconds, so it is exact.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::trc::{Step, Trc, TrcError};
use lighthaul_base::{Instant, Rate};

use crate::path::Path;

/// Time-range-capacity vector (TRC, section 3.1 of the paper) and the path that it applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub(crate) path: Arc<Path>,
    pub(crate) steps: Vec<Step>,
}

impl Grant {
    /// Returns the path.
    pub const fn path(&self) -> &Arc<Path> {
        &self.path
    }

    /// Returns the steps at the granularity that was requested.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the start.
    pub fn start(&self) -> Instant {
        self.steps.first().map_or(Instant::NEVER, |step| step.from)
    }

    /// Returns the promised end.
    pub fn end(&self) -> Instant {
        self.steps.last().map_or(Instant::NEVER, |step| step.till)
    }

    /// Returns one step for each change of rate, as devices need them.
    pub fn joined(&self) -> Vec<Step> {
        let mut joined = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            push(&mut joined, *step, true);
        }
        joined
    }

    /// Returns the rates that carry data: the steps without guard times after an increase.
    pub fn carrying_steps(&self) -> Vec<Step> {
        let guard = Duration::from_nanos(self.path.guard);
        let joined = self.joined();
        if guard.is_zero() {
            return joined;
        }
        let mut carrying = Vec::with_capacity(joined.len() * 2);
        let mut before: Option<Step> = None;
        // for each increase: end of its guard time, and amount in bits a second
        let mut guarded: Vec<(Instant, u64)> = Vec::new();
        for step in joined {
            let meets = before.filter(|before| before.till == step.from);
            let raised = step
                .rate
                .as_bps()
                .saturating_sub(meets.map_or(0, |step| step.rate.as_bps()));
            guarded.push((step.from + guard, raised));
            let mut from = step.from;
            while from < step.till {
                guarded.retain(|(until, _)| *until > from);
                let till = guarded
                    .iter()
                    .fold(step.till, |till, (until, _)| till.min(*until));
                let off: u64 = guarded.iter().map(|(_, off)| off).sum();
                if let Some(rate) = Rate::from_bps(step.rate.as_bps().saturating_sub(off)) {
                    push(&mut carrying, Step { from, till, rate }, true);
                }
                from = till;
            }
            before = Some(step);
        }
        carrying
    }

    /// Returns the TRC vector of a transfer, with times relative to `zero`.
    pub fn trc(&self, zero: Instant) -> Result<Trc, TrcError> {
        let mut steps = self.carrying_steps();
        for step in &mut steps {
            step.from = Instant::ZERO + step.from.since(zero);
            step.till = Instant::ZERO + step.till.since(zero);
        }
        steps.retain(|step| step.from < step.till);
        Trc::new(steps)
    }

    /// Returns what devices count for the part of `work_in_all` that the grant does not carry. Each increase costs its
    /// guard time.
    pub(crate) fn left(&self, work_in_all: u128) -> u128 {
        let mut left = self.path.counted(work_in_all);
        let mut before: Option<&Step> = None;
        for step in &self.steps {
            left = left.saturating_add(self.guard_cost(before, step));
            before = Some(step);
        }
        let held = self
            .steps
            .iter()
            .map(|step| work(step.rate.as_bps(), step.from, step.till));
        left.saturating_sub(held.sum())
    }

    /// Returns the time at which this much work has been carried, in the unit of
    /// [`crate::Need::work`]. Returns the end if the grant carries less.
    pub fn end_of(&self, work_in_all: u128) -> Instant {
        let mut left = self.path.counted(work_in_all);
        let mut before: Option<&Step> = None;
        for step in &self.steps {
            left = left.saturating_add(self.guard_cost(before, step));
            let bps = step.rate.as_bps();
            let room = work(bps, step.from, step.till);
            if left <= room {
                return step.from + Duration::from_nanos(left.div_ceil(u128::from(bps)) as u64);
            }
            left -= room;
            before = Some(step);
        }
        self.end()
    }

    /// Returns the work that is lost in the guard time of an increase at the start of a step.
    fn guard_cost(&self, before: Option<&Step>, step: &Step) -> u128 {
        let meets = before.filter(|before| before.till == step.from);
        let before = meets.map_or(0, |before| before.rate.as_bps());
        u128::from(step.rate.as_bps().saturating_sub(before)) * u128::from(self.path.guard)
    }

    /// Returns the rate at a time.
    pub fn rate_at(&self, at: Instant) -> Option<Rate> {
        let step = &self.steps[self.steps.partition_point(|step| step.till <= at)..];
        step.first()
            .filter(|step| step.from <= at)
            .map(|step| step.rate)
    }

    /// Keeps the steps before a time and returns the later steps.
    pub(crate) fn split_off(&mut self, at: Instant) -> Vec<Step> {
        let first = self.steps.partition_point(|step| step.till <= at);
        let mut rest = self.steps.split_off(first);
        if let Some(step) = rest.first_mut().filter(|step| step.from < at) {
            self.steps.push(Step { till: at, ..*step });
            step.from = at;
        }
        rest
    }

    /// Appends steps, merged at equal rates if `joined` is set.
    pub(crate) fn append(&mut self, steps: &[Step], joined: bool) {
        for step in steps {
            push(&mut self.steps, *step, joined);
        }
    }
}

/// Returns the work that a rate carries in `from..till`.
pub(crate) fn work(bps: u64, from: Instant, till: Instant) -> u128 {
    u128::from(bps) * u128::from(till.as_nanos().saturating_sub(from.as_nanos()))
}

/// Appends a step. If `joined` is set, a step that continues the last one at the same rate extends
/// it.
pub(crate) fn push(steps: &mut Vec<Step>, step: Step, joined: bool) {
    match steps.last_mut() {
        Some(last) if joined && last.till == step.from && last.rate == step.rate => {
            last.till = step.till;
        }
        _ => steps.push(step),
    }
}
