//! Search for a grant in the free capacity.
//!
//! A [`Planner`] searches every path of a request and returns the grant with the earliest end.
//! Among equal ends, the first path wins, so a search always has the same result. It books nothing.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::trc::Step;
use lighthaul_base::{Instant, Rate};

use crate::config::Config;
use crate::fbls;
use crate::grant::Grant;
use crate::path::Path;
use crate::rate_limit::RateLimit;
use crate::refusal::Refusal;
use crate::request::{Detail, Need, Request, Shape};
use crate::resource::{Owner, Resource};
use crate::vbls::{self, FillLimits};
use crate::view::{Leg, View};

/// A request to search for, or the remaining part of one. It has no deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    pub(crate) owner: Owner,
    pub(crate) from: Instant,
    pub(crate) till: Instant,
    pub(crate) least: u64,
    pub(crate) most: u64,
    /// True if the rate is fixed at the highest one.
    pub(crate) is_fixed: bool,
    pub(crate) goal: Goal,
    /// True if the work of the goal is what devices count, and not that of the request.
    pub(crate) is_counted: bool,
    pub(crate) joined: bool,
    /// Rate that the transfer already has at its start, in bits a second.
    pub(crate) rate_before: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// Amount of work at varying rates.
    Carry(u128),
    /// Amount of work at one rate.
    Fixed(u128),
    /// At least the lowest rate for the given time.
    Hold(Duration),
}

impl Search {
    /// Builds the parameters of a search for `request` at `now`. Refuses inconsistent requests.
    pub(crate) fn of(request: &Request, now: Instant, config: &Config) -> Result<Self, Refusal> {
        let till = config.horizon_at(now);
        let least = request.rate_min.map_or(1, Rate::as_bps);
        if least > request.rate_max.as_bps() {
            let least = request.rate_min.unwrap_or(request.rate_max);
            return Err(Refusal::RateRange(least, request.rate_max));
        }
        if request.from < now {
            return Err(Refusal::StartPassed(now));
        }
        if request.need.is_nothing() {
            return Err(Refusal::Empty);
        }
        let goal = match (request.need, request.shape) {
            (Need::Hold(time), _) => Goal::Hold(time),
            (need, Shape::Varying) => Goal::Carry(need.work()),
            (need, Shape::Fixed) => Goal::Fixed(need.work()),
        };
        let from = config.slot_from(request.from);
        if from >= till {
            return Err(Refusal::BeyondHorizon(till));
        }
        Ok(Self {
            owner: request.owner,
            from,
            till,
            least,
            most: request.rate_max.as_bps(),
            is_fixed: request.shape == Shape::Fixed,
            goal,
            is_counted: false,
            joined: request.detail == Detail::Joined,
            rate_before: 0,
        })
    }

    /// Returns the search adapted to a path: rates rounded to its channels and within its capacity, and the work that
    /// its devices count.
    pub(crate) fn on(&self, path: &Path) -> Result<Self, Refusal> {
        let most = if self.is_fixed {
            self.most
        } else {
            self.most.min(path.capacity)
        };
        let most = most - most % path.channel;
        let least = self.least.max(path.least);
        let least = least.checked_next_multiple_of(path.channel);
        let least = if self.is_fixed {
            most
        } else {
            least.unwrap_or(u64::MAX)
        };
        let rate = |bps| Rate::from_bps(bps).unwrap_or(Rate::UNLIMITED);
        if most < path.least.max(1) {
            return Err(Refusal::RateBelowChannel(rate(
                path.channel.max(path.least),
            )));
        }
        if least > path.capacity {
            return Err(Refusal::RateTooHigh(rate(path.capacity)));
        }
        // no multiple of the channel lies between the lowest and the highest rate
        if least > most {
            return Err(Refusal::RateRange(rate(least), rate(most)));
        }
        let counted = |work| {
            if self.is_counted {
                work
            } else {
                path.counted(work)
            }
        };
        let goal = match self.goal {
            Goal::Carry(work) => Goal::Carry(counted(work)),
            Goal::Fixed(work) => Goal::Fixed(counted(work)),
            Goal::Hold(time) => Goal::Hold(time),
        };
        Ok(Self {
            least,
            most,
            goal,
            is_counted: true,
            ..*self
        })
    }
}

/// Capacity in which grants are searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planner<'a> {
    pub(crate) config: &'a Config,
    pub(crate) resources: &'a [Resource],
    /// Limit on the rate, in addition to `resources`.
    pub(crate) limit: Option<RateLimit<'a>>,
}

impl<'a> Planner<'a> {
    /// Returns the grant with the earliest end; among equal grants, the grant on the first path.
    pub(crate) fn best(&self, search: &Search, paths: &[Arc<Path>]) -> Result<Grant, Refusal> {
        let mut search = *search;
        let mut best: Option<Grant> = None;
        let mut refusal = Refusal::NoPath;
        for path in paths {
            match self.steps(&search, path) {
                Ok(steps) => {
                    let grant = Grant {
                        path: Arc::clone(path),
                        steps,
                    };
                    // another grant is better only if it ends earlier
                    if best.as_ref().is_none_or(|best| grant.end() < best.end()) {
                        search.till = grant.end();
                        best = Some(grant);
                    }
                }
                Err(why) if refusal == Refusal::NoPath => refusal = why,
                // a path that has the rate, but no free time, comes before one without the rate
                Err(why) if refusal.is_of_rate() && !why.is_of_rate() => refusal = why,
                Err(_) => {}
            }
        }
        best.ok_or(refusal)
    }

    /// Returns the capacity of an owner on a path from a time on that stays free for a guard time.
    pub(crate) fn view(&self, owner: Owner, path: &Path, at: Instant) -> View<'a> {
        self.raw_view(owner, path, at).with_trail(path.trail())
    }

    /// Returns the free capacity of an owner on a path from a time on.
    pub(crate) fn raw_view(&self, owner: Owner, path: &Path, at: Instant) -> View<'a> {
        let mut legs = Vec::with_capacity(path.links().len() + 2);
        legs.extend(self.limit.map(|RateLimit { left, less }| Leg::Reduced {
            left: left.cursor(at),
            less,
        }));
        for link in path.resources() {
            self.resources[link.0 as usize].legs(owner, at, &mut legs);
        }
        View::new(legs, at)
    }

    /// Returns the limits of a search on a path.
    pub(crate) fn limits(&self, search: &Search, path: &Path) -> FillLimits {
        FillLimits {
            till: search.till,
            least: search.least,
            most: search.most,
            channel: path.channel,
            guard: path.guard,
            slot: self.config.slot_nanos(),
            rate_before: search.rate_before,
            joined: search.joined,
            steps_max: self.config.steps_max,
        }
    }

    fn steps(&self, search: &Search, path: &Path) -> Result<Vec<Step>, Refusal> {
        let search = search.on(path)?;
        let mut view = self.view(search.owner, path, search.from);
        let mut limits = self.limits(&search, path);
        let far = Refusal::BeyondHorizon(search.till);
        match search.goal {
            Goal::Carry(work) => vbls::fill(&mut view, &limits, work),
            Goal::Fixed(work) => {
                let nanos = work.div_ceil(u128::from(search.most));
                let time = Duration::from_nanos(u64::try_from(nanos).map_err(|_| far)?);
                fbls::earliest(
                    &mut view,
                    search.most,
                    self.hold_time(&search, time, path),
                    search.till,
                )
                .ok_or(far)?;
                vbls::fill(&mut view, &limits, work)
            }
            Goal::Hold(time) => {
                let hold_time = self.hold_time(&search, time, path);
                let from =
                    fbls::earliest(&mut view, search.least, hold_time, search.till).ok_or(far)?;
                limits.till = from + hold_time;
                vbls::hold(&mut view, &limits)
            }
        }
    }

    /// Returns the time for which capacity is held to carry data for `time`, rounded up to slots.
    fn hold_time(&self, search: &Search, time: Duration, path: &Path) -> Duration {
        let hold_time = if search.rate_before == 0 {
            path.hold_time(time)
        } else {
            time
        };
        self.config
            .slot_from(Instant::ZERO + hold_time)
            .since(Instant::ZERO)
    }
}
