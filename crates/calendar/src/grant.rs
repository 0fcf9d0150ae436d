//! What is promised.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::trc::{Step, Trc, TrcError};
use lighthaul_base::{Instant, Rate};

use crate::path::Path;

/// The paper's TRC (section 3.1): which rates on which links, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub(crate) path: Arc<Path>,
    pub(crate) steps: Vec<Step>,
}

impl Grant {
    /// The links that it is on.
    pub const fn path(&self) -> &Arc<Path> {
        &self.path
    }

    /// Its steps as they were asked for: joined, or one for each round.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// When it begins.
    pub fn start(&self) -> Instant {
        self.steps.first().map_or(Instant::NEVER, |step| step.from)
    }

    /// When it is over: the promise.
    pub fn end(&self) -> Instant {
        self.steps.last().map_or(Instant::NEVER, |step| step.till)
    }

    /// One step for each rate, as devices follow it.
    pub fn joined(&self) -> Vec<Step> {
        let mut joined = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            push(&mut joined, *step, true);
        }
        joined
    }

    /// What it carries: its steps without the guard times of what was raised.
    pub fn lit(&self) -> Vec<Step> {
        let guard = Duration::from_nanos(self.path.guard);
        let joined = self.joined();
        if guard.is_zero() {
            return joined;
        }
        let mut lit = Vec::with_capacity(joined.len() * 2);
        let mut before: Option<Step> = None;
        // until when, and how much
        let mut dark: Vec<(Instant, u64)> = Vec::new();
        for step in joined {
            let meets = before.filter(|before| before.till == step.from);
            let raised = step
                .rate
                .as_bps()
                .saturating_sub(meets.map_or(0, |step| step.rate.as_bps()));
            dark.push((step.from + guard, raised));
            let mut from = step.from;
            while from < step.till {
                dark.retain(|(until, _)| *until > from);
                let till = dark
                    .iter()
                    .fold(step.till, |till, (until, _)| till.min(*until));
                let off: u64 = dark.iter().map(|(_, off)| off).sum();
                if let Some(rate) = Rate::from_bps(step.rate.as_bps().saturating_sub(off)) {
                    push(&mut lit, Step { from, till, rate }, true);
                }
                from = till;
            }
            before = Some(step);
        }
        lit
    }

    /// The vector that a transfer follows, with moments that count from `zero` on.
    pub fn trc(&self, zero: Instant) -> Result<Trc, TrcError> {
        let mut steps = self.lit();
        for step in &mut steps {
            step.from = Instant::ZERO + step.from.since(zero);
            step.till = Instant::ZERO + step.till.since(zero);
        }
        steps.retain(|step| step.from < step.till);
        Trc::new(steps)
    }

    /// What it has carried before a moment, as [`crate::Need::work`] counts.
    pub fn work_before(&self, at: Instant) -> u128 {
        let lit = self.lit();
        let before = lit.iter().take_while(|step| step.from < at);
        before
            .map(|step| work(step.rate.as_bps(), step.from, step.till.min(at)))
            .sum()
    }

    /// What is left of some work when it is over, if what it raises is paid for when it begins.
    pub(crate) fn left(&self, work_in_all: u128) -> u128 {
        let mut left = work_in_all;
        let mut before: Option<&Step> = None;
        for step in &self.steps {
            left = left.saturating_add(self.toll(before, step));
            before = Some(step);
        }
        let held = self
            .steps
            .iter()
            .map(|step| work(step.rate.as_bps(), step.from, step.till));
        left.saturating_sub(held.sum())
    }

    /// When so much work has been carried, as [`crate::Need::work`] counts; its end if that is never.
    pub fn end_of(&self, mut left: u128) -> Instant {
        let mut before: Option<&Step> = None;
        for step in &self.steps {
            left = left.saturating_add(self.toll(before, step));
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

    /// What a step would carry in the guard time if it were not raised.
    fn toll(&self, before: Option<&Step>, step: &Step) -> u128 {
        let meets = before.filter(|before| before.till == step.from);
        let before = meets.map_or(0, |before| before.rate.as_bps());
        u128::from(step.rate.as_bps().saturating_sub(before)) * u128::from(self.path.guard)
    }

    /// What it holds at a moment.
    pub fn rate_at(&self, at: Instant) -> Option<Rate> {
        let step = &self.steps[self.steps.partition_point(|step| step.till <= at)..];
        step.first()
            .filter(|step| step.from <= at)
            .map(|step| step.rate)
    }

    /// Keeps what is before a moment; what is behind it is returned.
    pub(crate) fn split_off(&mut self, at: Instant) -> Vec<Step> {
        let first = self.steps.partition_point(|step| step.till <= at);
        let mut rest = self.steps.split_off(first);
        if let Some(step) = rest.first_mut().filter(|step| step.from < at) {
            self.steps.push(Step { till: at, ..*step });
            step.from = at;
        }
        rest
    }

    /// Goes on with these steps.
    pub(crate) fn append(&mut self, steps: &[Step], joined: bool) {
        for step in steps {
            push(&mut self.steps, *step, joined);
        }
    }
}

/// What a rate carries from one moment till another.
pub(crate) fn work(bps: u64, from: Instant, till: Instant) -> u128 {
    u128::from(bps) * u128::from(till.as_nanos().saturating_sub(from.as_nanos()))
}

/// Adds a step; if they are to be joined, as part of the last one where it goes on at the same rate.
pub(crate) fn push(steps: &mut Vec<Step>, step: Step, joined: bool) {
    match steps.last_mut() {
        Some(last) if joined && last.till == step.from && last.rate == step.rate => {
            last.till = step.till;
        }
        _ => steps.push(step),
    }
}
