//! VBLS: a transfer uses the free rate, round by round (section 3.2 of the VBLS paper).
//!
//! `fill` returns the steps that carry an amount of work, and `hold` those of a period. Each change
//! of the free rate begins a round. The rate of a round is the free rate, rounded down to channels
//! and within the lowest and highest rate of the request. An increase that would not outlast its
//! guard time is skipped. Both functions read a `View` and book nothing.

use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::trc::Step;
use lighthaul_base::{Instant, Rate};

use crate::grant::{push, work};
use crate::refusal::Refusal;
use crate::view::View;

/// Limits within which a transfer uses free capacity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FillLimits {
    /// Latest end.
    pub(crate) till: Instant,
    /// Lowest usable rate in bits a second; at least one channel.
    pub(crate) least: u64,
    /// Highest usable rate in bits a second; a multiple of the channel.
    pub(crate) most: u64,
    /// Unit of rates, in bits a second.
    pub(crate) channel: u64,
    /// Guard time in nanoseconds, in which an increase carries nothing.
    pub(crate) guard: u64,
    /// Unit of times in nanoseconds; 1 for no rounding.
    pub(crate) slot: u64,
    /// Rate that the transfer already has where the view begins.
    pub(crate) rate_before: u64,
    /// True if steps of equal rate are merged.
    pub(crate) joined: bool,
    /// Maximum number of steps.
    pub(crate) steps_max: usize,
}

/// Returns the steps that carry `left`, from the time of the view on.
pub(crate) fn fill(
    view: &mut View<'_>,
    limits: &FillLimits,
    mut left: u128,
) -> Result<Vec<Step>, Refusal> {
    let mut steps = Vec::new();
    carry(view, limits, &mut left, &mut steps);
    match left {
        _ if steps.len() > limits.steps_max => Err(Refusal::TooManySteps(limits.steps_max)),
        0 => Ok(steps),
        _ => Err(Refusal::BeyondHorizon(limits.till)),
    }
}

/// Returns the usable steps from the time of the view until the latest end.
pub(crate) fn hold(view: &mut View<'_>, limits: &FillLimits) -> Result<Vec<Step>, Refusal> {
    let mut steps = Vec::new();
    let mut left = u128::MAX;
    carry(view, limits, &mut left, &mut steps);
    if steps.len() > limits.steps_max {
        return Err(Refusal::TooManySteps(limits.steps_max));
    }
    Ok(steps)
}

/// Adds steps until the work is carried, the time ends, or the number of steps is too high.
fn carry(view: &mut View<'_>, limits: &FillLimits, left: &mut u128, steps: &mut Vec<Step>) {
    let mut rate_before = limits.rate_before;
    while *left > 0 && view.now() < limits.till && steps.len() <= limits.steps_max {
        let (from, free) = (view.now(), view.free());
        let bps = limits.rate(view, rate_before, *left);
        let Some(rate) = Rate::from_bps(bps).filter(|_| bps >= limits.least) else {
            rate_before = 0;
            if free < limits.least {
                view.seek_at_least(limits.least);
            } else {
                view.seek(view.till());
            }
            continue;
        };
        // an increase costs its rate times the guard time, no matter which part of the transfer
        // pays it
        *left = left
            .saturating_add(u128::from(bps.saturating_sub(rate_before)) * u128::from(limits.guard));
        rate_before = bps;
        let runs = limits.joined && bps == limits.most;
        let till = if runs {
            view.next_below(bps)
        } else {
            view.till()
        };
        let till = till.min(limits.till);
        let room = work(bps, from, till);
        if *left <= room {
            limits.end(from, rate, *left, steps);
            *left = 0;
        } else {
            *left -= room;
            push(steps, Step { from, till, rate }, limits.joined);
            view.seek(till);
        }
    }
}

impl FillLimits {
    /// Returns the rate to use from this time on, if `rate_before` was used until now.
    fn rate(&self, view: &View<'_>, rate_before: u64, left: u128) -> u64 {
        let rate = self.part(view.free());
        if rate <= rate_before || self.guard == 0 {
            return rate;
        }
        // an increase is useless if the transfer ends within its guard time, or the free rate lasts
        // no longer
        if left <= u128::from(rate_before) * u128::from(self.guard) {
            return rate_before;
        }
        let guard_end = view.now() + Duration::from_nanos(self.guard);
        if guard_end >= self.till {
            return rate_before;
        }
        self.part(view.least_until(guard_end)).max(rate_before)
    }

    /// Returns the usable rate where `free` is free.
    const fn part(&self, free: u64) -> u64 {
        if free >= self.most {
            self.most
        } else {
            free - free % self.channel
        }
    }

    /// Adds the last steps, until all work is carried.
    ///
    /// With slots, the last step has only the channels that it needs. At the full rate it could
    /// carry much more than the rest, because a slot is long compared with a small transfer.
    fn end(&self, from: Instant, rate: Rate, left: u128, steps: &mut Vec<Step>) {
        let bps = u128::from(rate.as_bps());
        let slots = |slots: u128| Duration::from_nanos(slots as u64 * self.slot);
        if self.slot == 1 {
            let till = from + Duration::from_nanos(left.div_ceil(bps) as u64);
            return push(steps, Step { from, till, rate }, self.joined);
        }
        let slot = u128::from(self.slot);
        let full = left / (bps * slot);
        let till = from + slots(full);
        if full > 0 {
            push(steps, Step { from, till, rate }, self.joined);
        }
        let rest = (left - full * bps * slot).div_ceil(slot) as u64;
        let rest = rest.next_multiple_of(self.channel).max(self.least);
        if let Some(rate) = Rate::from_bps(rest).filter(|_| left > full * bps * slot) {
            let (from, till) = (till, till + slots(1));
            push(steps, Step { from, till, rate }, self.joined);
        }
    }
}
