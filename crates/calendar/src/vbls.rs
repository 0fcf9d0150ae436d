//! VBLS: a transfer takes what is free, round by round (section 3.2 of the paper).

use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::trc::Step;
use lighthaul_base::{Instant, Rate};

use crate::grant::{push, work};
use crate::refusal::Refusal;
use crate::view::View;

/// Within which bounds a transfer takes what is free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Nothing from this moment on.
    pub(crate) till: Instant,
    /// Less than this is not used; at least a channel.
    pub(crate) least: u64,
    /// More than this is not used; a multiple of the channel.
    pub(crate) most: u64,
    /// What rates are multiples of.
    pub(crate) channel: u64,
    /// Nanoseconds in which what was raised carries nothing.
    pub(crate) guard: u64,
    /// Nanoseconds that moments are multiples of; 1 if any will do.
    pub(crate) slot: u64,
    /// What the transfer holds already where the view begins.
    pub(crate) lit: u64,
    /// Whether steps of one rate become one.
    pub(crate) joined: bool,
    /// The most steps.
    pub(crate) steps_max: usize,
}

/// The steps in which `left` is carried, from where the view is.
pub(crate) fn fill(
    view: &mut View<'_>,
    terms: &Terms,
    mut left: u128,
) -> Result<Vec<Step>, Refusal> {
    let mut steps = Vec::new();
    carry(view, terms, &mut left, &mut steps);
    match left {
        _ if steps.len() > terms.steps_max => Err(Refusal::Steps(terms.steps_max)),
        0 => Ok(steps),
        _ => Err(Refusal::Far(terms.till)),
    }
}

/// The steps that are free, from where the view is, until the terms end.
pub(crate) fn hold(view: &mut View<'_>, terms: &Terms) -> Result<Vec<Step>, Refusal> {
    let mut steps = Vec::new();
    let mut left = u128::MAX;
    carry(view, terms, &mut left, &mut steps);
    if steps.len() > terms.steps_max {
        return Err(Refusal::Steps(terms.steps_max));
    }
    Ok(steps)
}

/// Takes what is free until nothing is left to carry, the time is over, or the steps are too many.
fn carry(view: &mut View<'_>, terms: &Terms, left: &mut u128, steps: &mut Vec<Step>) {
    let mut lit = terms.lit;
    while *left > 0 && view.now() < terms.till && steps.len() <= terms.steps_max {
        let (from, free) = (view.now(), view.free());
        let bps = terms.rate(view, lit, *left);
        let Some(rate) = Rate::from_bps(bps).filter(|_| bps >= terms.least) else {
            lit = 0;
            if free < terms.least {
                view.seek_at_least(terms.least);
            } else {
                view.seek(view.till());
            }
            continue;
        };
        // switching costs what the raised rate would carry in the guard time, whenever it is paid
        *left = left.saturating_add(u128::from(bps.saturating_sub(lit)) * u128::from(terms.guard));
        lit = bps;
        let runs = terms.joined && bps == terms.most;
        let till = if runs {
            view.next_below(bps)
        } else {
            view.till()
        };
        let till = till.min(terms.till);
        let room = work(bps, from, till);
        if *left <= room {
            terms.end(from, rate, *left, steps);
            *left = 0;
        } else {
            *left -= room;
            push(steps, Step { from, till, rate }, terms.joined);
            view.seek(till);
        }
    }
}

impl Terms {
    /// What is used of what is free, where `lit` was used until now.
    fn rate(&self, view: &View<'_>, lit: u64, left: u128) -> u64 {
        let rate = self.part(view.free());
        if rate <= lit || self.guard == 0 {
            return rate;
        }
        // who is over before the guard time is would only be later, and what does not outlast it carries nothing
        if left <= u128::from(lit) * u128::from(self.guard) {
            return lit;
        }
        let dark = view.now() + Duration::from_nanos(self.guard);
        if dark >= self.till {
            return lit;
        }
        self.part(view.least_until(dark)).max(lit)
    }

    /// What may be used where so much is free.
    const fn part(&self, free: u64) -> u64 {
        if free >= self.most {
            self.most
        } else {
            free - free % self.channel
        }
    }

    /// The last steps: at a rate until all is carried. Where moments are slots the last one has just the channels that it
    /// needs: a whole one at the full rate can come to more than the link has (a slot is long beside a small transfer).
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
