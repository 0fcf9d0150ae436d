//! Release, extension, reduction and repacking of bookings.
//!
//! Each change takes effect from `now` on and never rewrites the past. A change that is refused
//! leaves the calendar as it was. A repack gives a booking a new grant only if that ends no later,
//! so it never breaks a promised end.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};

use lighthaul_base::Instant;
use lighthaul_base::trc::Step;

use crate::booking::{Booking, Id};
use crate::calendar::Calendar;
use crate::grant::Grant;
use crate::path::Path;
use crate::plan::{Goal, Planner, Search};
use crate::rate_limit::RateLimit;
use crate::refusal::{CounterOffer, Refusal};
use crate::request::{Detail, Need, Shape};
use crate::topology::Topology;

/// A booking whose grant has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Number of the booking.
    pub id: Id,
    /// End before the change.
    pub was: Instant,
    /// End after the change.
    pub end: Instant,
}

/// Additional rules for the grants that a booking may be moved to.
///
/// The calendar calls [`Self::may_take`] before it searches a path, and [`Self::check`] for the
/// grant that it has found.
pub trait MoveRules {
    /// Notes that the bookings hold nothing from now on, until a new grant passes [`Self::check`].
    fn displace(&mut self, _ids: &[Id]) {}

    /// Returns true if a booking may be moved to another path.
    fn may_take(&self, id: Id, path: &Path, topology: &Topology) -> bool;

    /// Returns an upper bound on the rate of a booking over time, in addition to the capacity of
    /// links.
    fn rate_limit(&self, _id: Id) -> Option<RateLimit<'_>> {
        None
    }

    /// Accepts or refuses a new grant for a booking.
    fn check(&mut self, id: Id, was: &Grant, new: &Grant) -> Result<(), Refusal>;
}

/// Rules that allow every move.
#[derive(Clone, Copy, Debug)]
pub struct NoRules;

impl MoveRules for NoRules {
    fn may_take(&self, _id: Id, _path: &Path, _topology: &Topology) -> bool {
        true
    }

    fn check(&mut self, _id: Id, _was: &Grant, _new: &Grant) -> Result<(), Refusal> {
        Ok(())
    }
}

/// Limits on the work of one repack, which reduces them by its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepackLimits {
    /// Number of bookings to place again.
    pub bookings: usize,
    /// Total number of steps of the bookings, which determines the time that a change takes.
    pub steps: usize,
}

impl RepackLimits {
    /// No limit.
    pub const NONE: Self = Self {
        bookings: usize::MAX,
        steps: usize::MAX,
    };
}

/// Set of bookings that a repack may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Bookings that have not started, so that no active circuit changes.
    Waiting,
    /// Also the remaining part of active bookings.
    All,
}

impl Calendar {
    /// Ends a booking and returns its steps from now on. Their capacity is free at once, or after the guard time of its
    /// device.
    pub fn release(&mut self, now: Instant, id: Id) -> Result<Vec<Step>, Refusal> {
        let mut booking = self.bookings.remove(id).ok_or(Refusal::NotFound(id))?;
        let (owner, from) = (booking.request.owner, self.first_from(now));
        self.give(owner, &booking.grant.path, &booking.taken(from));
        let rest = booking.grant.split_off(from);
        self.take(owner, &booking.grant.path, &booking.taken(from));
        Ok(rest)
    }

    /// Increases the amount of a booking. A size at a varying rate uses the free capacity from now
    /// on. Other bookings are extended at their end, which fails if another booking follows.
    pub fn extend(&mut self, now: Instant, id: Id, need: Need) -> Result<&Grant, Refusal> {
        let request = &self.booking_to_change(now, id)?.request;
        if compare(need, request.need) != Some(Ordering::Greater) {
            return Err(Refusal::AmountOutOfRange(id));
        }
        let deadline = request.deadline.unwrap_or(Instant::NEVER);
        self.renew(now, id, need, &mut InTime { deadline })?;
        self.rewrite(id, need)
    }

    /// Reduces the amount of a booking. It keeps its steps and ends earlier.
    pub fn shrink(&mut self, now: Instant, id: Id, need: Need) -> Result<&Grant, Refusal> {
        let booking = self.booking_to_change(now, id)?;
        if need.is_nothing() {
            return Err(Refusal::Empty);
        }
        if compare(need, booking.request.need) != Some(Ordering::Less) {
            return Err(Refusal::AmountOutOfRange(id));
        }
        let end = match need {
            Need::Size { .. } => booking.grant.end_of(need.work()),
            Need::Hold(time) => booking.grant.start() + booking.grant.path.hold_time(time),
        };
        let end = self.config.slot_from(end);
        if end <= now {
            return Err(Refusal::AmountOutOfRange(id));
        }
        self.cut(id, end);
        self.rewrite(id, need)
    }

    /// Places the remaining parts of bookings again, by priority and then by booking time, as many
    /// as `limits` allow. A booking gets a new grant only if that ends no later. Returns the
    /// bookings whose steps have changed, including those with an unchanged end.
    ///
    /// A transfer that was booked with a margin (section 4.3 of the paper) and ends early frees
    /// capacity for later ones. Repacking them in order gives each the grant it would have had
    /// without margins.
    pub fn repack(&mut self, now: Instant, scope: Scope, mut limits: RepackLimits) -> Vec<Moved> {
        self.repack_by(now, scope, &mut limits, &mut NoRules)
    }

    /// Repacks like [`Self::repack`], within `rules`. Stops before a booking that has more steps
    /// than `limits` allows, and then sets the step limit to zero.
    pub fn repack_by(
        &mut self,
        now: Instant,
        scope: Scope,
        limits: &mut RepackLimits,
        rules: &mut impl MoveRules,
    ) -> Vec<Moved> {
        let now = self.first_from(now);
        let ids = self.in_turn(|booking| match scope {
            Scope::Waiting => booking.grant.start() >= now,
            Scope::All => booking.grant.end() > now,
        });
        let mut moves = Vec::new();
        for id in ids {
            if limits.bookings == 0 {
                break;
            }
            let Some(booking) = self.bookings.find(id) else {
                continue;
            };
            let (need, steps) = (booking.request.need, booking.grant.steps.len());
            let Some(left) = limits.steps.checked_sub(steps) else {
                limits.steps = 0;
                break;
            };
            *limits = RepackLimits {
                bookings: limits.bookings - 1,
                steps: left,
            };
            let mut no_later = NoLaterEndRules {
                rules,
                is_other: false,
            };
            let moved = self.renew(now, id, need, &mut no_later).ok();
            moves.extend(moved.filter(|_| no_later.is_other));
        }
        moves
    }

    /// Returns the numbers of selected bookings by descending priority, then by booking time.
    pub(crate) fn in_turn(&self, which: impl Fn(&Booking) -> bool) -> Vec<Id> {
        let bookings = self.bookings().filter(|(_, booking)| which(booking));
        let turns =
            bookings.map(|(id, booking)| (Reverse(booking.request.priority), booking.sequence, id));
        let mut turns: Vec<_> = turns.collect();
        turns.sort_unstable();
        turns.into_iter().map(|(_, _, id)| id).collect()
    }

    /// Searches a new grant for a booking from now on. The booking keeps its grant if none is found
    /// or if the rules refuse it.
    pub(crate) fn renew(
        &mut self,
        now: Instant,
        id: Id,
        need: Need,
        rules: &mut impl MoveRules,
    ) -> Result<Moved, Refusal> {
        let now = self.first_from(now);
        let mut booking = self.bookings.remove(id).ok_or(Refusal::NotFound(id))?;
        let (owner, was) = (booking.request.owner, booking.grant.clone());
        self.give(owner, &was.path, &booking.taken(now));
        booking.grant.split_off(now);
        let renewal = Renewal {
            id,
            booking: &booking,
            was: &was,
            need,
        };
        let renewed = self.rest(now, &renewal, rules).and_then(|later| {
            let joined = booking.request.detail == Detail::Joined;
            let mut new = booking.grant.clone();
            new.path = Arc::clone(&later.path);
            new.append(&later.steps, joined);
            if new.steps.len() > self.config.steps_max {
                return Err(Refusal::TooManySteps(self.config.steps_max));
            }
            rules.check(id, &was, &new).map(|()| new)
        });
        let end = was.end();
        let (grant, moved) = match renewed {
            Ok(new) => {
                let moved = Moved {
                    id,
                    was: end,
                    end: new.end(),
                };
                if booking.grant.steps.is_empty() {
                    booking.trail = new.path.trail();
                }
                (new, Ok(moved))
            }
            Err(why) => (was, Err(why)),
        };
        booking.grant = grant;
        self.take(owner, &booking.grant.path, &booking.taken(now));
        self.bookings.insert(id, booking);
        moved
    }

    /// Searches a grant for the remaining part of a booking whose later steps have been released.
    /// An active booking stays on its path. If its rate is fixed it also continues without a gap,
    /// and so does an extended holding time.
    fn rest(
        &self,
        now: Instant,
        renewal: &Renewal<'_>,
        rules: &impl MoveRules,
    ) -> Result<Grant, Refusal> {
        let Renewal {
            id,
            booking,
            was,
            need,
        } = *renewal;
        let mut request = booking.request.clone();
        let begun = booking.grant.steps.last();
        let varies = request.shape == Shape::Varying && matches!(need, Need::Size { .. });
        let stays = !varies && (begun.is_some() || need != request.need);
        request.from = if stays { was.start() } else { request.from }.max(now);
        request.need = need;
        let mut search = Search::of(&request, now, &self.config)?;
        let paths = match begun {
            None if stays => vec![Arc::clone(&was.path)],
            None => {
                let mut paths = self.paths(&request.route)?.into_owned();
                paths.retain(|path| *path == was.path || rules.may_take(id, path, self.topology()));
                paths
            }
            Some(last) => {
                search.rate_before = if last.till == now {
                    last.rate.as_bps()
                } else {
                    0
                };
                search.is_counted = true;
                search.goal = match search.goal {
                    Goal::Carry(work) => Goal::Carry(booking.grant.left(work)),
                    Goal::Fixed(work) => Goal::Fixed(booking.grant.left(work)),
                    Goal::Hold(time) => {
                        Goal::Hold((was.start() + was.path.hold_time(time)).since(now))
                    }
                };
                vec![Arc::clone(&was.path)]
            }
        };
        let planner = Planner {
            limit: rules.rate_limit(id),
            ..self.planner()
        };
        let found = planner.best(&search, &paths);
        if stays && found.as_ref().map(Grant::start) != Ok(search.from) {
            let view = planner.view(search.owner, &was.path, search.from);
            return Err(Refusal::FollowingBooked(
                view.next_below(search.on(&was.path)?.least),
            ));
        }
        found
    }

    /// Ends a booking at a time and frees its later capacity.
    pub(crate) fn cut(&mut self, id: Id, at: Instant) {
        let cut = self.bookings.change(id, |booking| {
            let before = booking.taken(at);
            booking.grant.split_off(at);
            let path = Arc::clone(&booking.grant.path);
            (booking.request.owner, path, before, booking.taken(at))
        });
        if let Some((owner, path, before, after)) = cut {
            self.give(owner, &path, &before);
            self.take(owner, &path, &after);
        }
    }

    /// Returns a booking that has not ended.
    fn booking_to_change(&self, now: Instant, id: Id) -> Result<&Booking, Refusal> {
        let booking = self.bookings.find(id).ok_or(Refusal::NotFound(id))?;
        let ahead = booking.grant.end() > now;
        ahead.then_some(booking).ok_or(Refusal::Ended(id))
    }

    /// Stores the new amount of a booking.
    fn rewrite(&mut self, id: Id, need: Need) -> Result<&Grant, Refusal> {
        self.bookings
            .change(id, |booking| booking.request.need = need);
        let booking = self.bookings.find(id).ok_or(Refusal::NotFound(id))?;
        Ok(&booking.grant)
    }
}

/// Booking for which a new grant is searched, after its steps from now on have been released.
struct Renewal<'a> {
    id: Id,
    booking: &'a Booking,
    was: &'a Grant,
    need: Need,
}

/// Rules that refuse a grant with a late end.
struct InTime {
    deadline: Instant,
}

impl MoveRules for InTime {
    fn may_take(&self, _id: Id, _path: &Path, _topology: &Topology) -> bool {
        true
    }

    fn check(&mut self, _id: Id, _was: &Grant, new: &Grant) -> Result<(), Refusal> {
        let late = CounterOffer {
            end: Some(new.end()),
            ..CounterOffer::default()
        };
        let in_time = new.end() <= self.deadline;
        in_time.then_some(()).ok_or(Refusal::MissesDeadline(late))
    }
}

/// Rules that refuse a later end than before, and note if a different grant was accepted.
struct NoLaterEndRules<'a, R> {
    rules: &'a mut R,
    is_other: bool,
}

impl<R: MoveRules> MoveRules for NoLaterEndRules<'_, R> {
    fn may_take(&self, id: Id, path: &Path, topology: &Topology) -> bool {
        self.rules.may_take(id, path, topology)
    }

    fn rate_limit(&self, id: Id) -> Option<RateLimit<'_>> {
        self.rules.rate_limit(id)
    }

    fn check(&mut self, id: Id, was: &Grant, new: &Grant) -> Result<(), Refusal> {
        if new.end() > was.end() {
            return Err(Refusal::FollowingBooked(was.end()));
        }
        self.is_other = was != new;
        if self.is_other {
            return self.rules.check(id, was, new);
        }
        Ok(())
    }
}

/// Compares two amounts of the same variant.
fn compare(need: Need, other: Need) -> Option<Ordering> {
    match (need, other) {
        (Need::Size { .. }, Need::Size { .. }) => Some(need.work().cmp(&other.work())),
        (Need::Hold(time), Need::Hold(other)) => Some(time.cmp(&other)),
        _ => None,
    }
}
