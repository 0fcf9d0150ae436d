//! How a request is fitted into what is free.

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
use crate::stock::{Owner, Stock};
use crate::vbls::{self, Terms};
use crate::view::{Leg, View};

/// What is looked for: a request without its deadline, or what is left of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) owner: Owner,
    pub(crate) from: Instant,
    pub(crate) till: Instant,
    pub(crate) least: u64,
    pub(crate) most: u64,
    /// Whether it has the most all the time.
    pub(crate) is_fixed: bool,
    pub(crate) goal: Goal,
    pub(crate) joined: bool,
    /// What it holds already where it begins.
    pub(crate) lit: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// So much work, at whatever rates there are.
    Carry(u128),
    /// So much work at one rate.
    Fixed(u128),
    /// At least the least for so long.
    Hold(Duration),
}

impl Ask {
    /// What a request looks for at `now`, if it makes sense.
    pub(crate) fn of(request: &Request, now: Instant, config: &Config) -> Result<Self, Refusal> {
        let till = config.horizon_at(now);
        let least = request.rate_min.map_or(1, Rate::as_bps);
        if least > request.rate_max.as_bps() {
            let least = request.rate_min.unwrap_or(request.rate_max);
            return Err(Refusal::Least(least, request.rate_max));
        }
        if request.from < now {
            return Err(Refusal::Past(now));
        }
        if request.need.is_nothing() {
            return Err(Refusal::Nothing);
        }
        let goal = match (request.need, request.shape) {
            (Need::Hold(time), _) => Goal::Hold(time),
            (need, Shape::Varying) => Goal::Carry(need.work()),
            (need, Shape::Fixed) => Goal::Fixed(need.work()),
        };
        let from = config.slot_from(request.from);
        if from >= till {
            return Err(Refusal::Far(till));
        }
        Ok(Self {
            owner: request.owner,
            from,
            till,
            least,
            most: request.rate_max.as_bps(),
            is_fixed: request.shape == Shape::Fixed,
            goal,
            joined: request.detail == Detail::Joined,
            lit: 0,
        })
    }

    /// What of it can be had on a path: the rates that it has channels for.
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
            return Err(Refusal::Channel(rate(path.channel.max(path.least))));
        }
        if least > most || least > path.capacity {
            return Err(Refusal::Rate(rate(path.capacity)));
        }
        Ok(Self {
            least,
            most,
            ..*self
        })
    }
}

/// Where grants are looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) config: &'a Config,
    pub(crate) stocks: &'a [Stock],
    /// A bound on the rate, beside what the stocks have.
    pub(crate) limit: Option<RateLimit<'a>>,
}

impl<'a> Field<'a> {
    /// The grant that ends first, of equal ones that on the first path.
    pub(crate) fn best(&self, ask: &Ask, paths: &[Arc<Path>]) -> Result<Grant, Refusal> {
        let mut ask = *ask;
        let mut best: Option<Grant> = None;
        let mut refusal = Refusal::NoPath;
        for path in paths {
            match self.steps(&ask, path) {
                Ok(steps) => {
                    let grant = Grant {
                        path: Arc::clone(path),
                        steps,
                    };
                    // no other is of use that does not end before it
                    if best.as_ref().is_none_or(|best| grant.end() < best.end()) {
                        ask.till = grant.end();
                        best = Some(grant);
                    }
                }
                Err(why) if refusal == Refusal::NoPath => refusal = why,
                Err(_) => {}
            }
        }
        best.ok_or(refusal)
    }

    /// What an owner can have of a path from a moment on.
    pub(crate) fn view(&self, owner: Owner, path: &Path, at: Instant) -> View<'a> {
        let mut legs = Vec::with_capacity(path.links().len() + 2);
        legs.extend(self.limit.map(|RateLimit { left, less }| Leg::Beyond {
            left: left.cursor(at),
            less,
        }));
        for link in path.stocks() {
            self.stocks[link.0 as usize].legs(owner, at, &mut legs);
        }
        View::new(legs, at)
    }

    /// How much may be taken, and when, on a path.
    pub(crate) fn terms(&self, ask: &Ask, path: &Path) -> Terms {
        Terms {
            till: ask.till,
            least: ask.least,
            most: ask.most,
            channel: path.channel,
            guard: path.guard,
            slot: self.config.slot_nanos(),
            lit: ask.lit,
            joined: ask.joined,
            steps_max: self.config.steps_max,
        }
    }

    fn steps(&self, ask: &Ask, path: &Path) -> Result<Vec<Step>, Refusal> {
        let ask = ask.on(path)?;
        let mut view = self.view(ask.owner, path, ask.from);
        let mut terms = self.terms(&ask, path);
        let far = Refusal::Far(ask.till);
        match ask.goal {
            Goal::Carry(work) => vbls::fill(&mut view, &terms, work),
            Goal::Fixed(work) => {
                let nanos = work.div_ceil(u128::from(ask.most));
                let time = Duration::from_nanos(u64::try_from(nanos).map_err(|_| far)?);
                fbls::earliest(&mut view, ask.most, self.long(&ask, time, path), ask.till)
                    .ok_or(far)?;
                vbls::fill(&mut view, &terms, work)
            }
            Goal::Hold(time) => {
                let long = self.long(&ask, time, path);
                let from = fbls::earliest(&mut view, ask.least, long, ask.till).ok_or(far)?;
                terms.till = from + long;
                vbls::hold(&mut view, &terms)
            }
        }
    }

    /// How long it is held for what is to carry for `time`.
    fn long(&self, ask: &Ask, time: Duration, path: &Path) -> Duration {
        let long = if ask.lit == 0 {
            path.lasting(time)
        } else {
            time
        };
        self.config
            .slot_from(Instant::ZERO + long)
            .since(Instant::ZERO)
    }
}
