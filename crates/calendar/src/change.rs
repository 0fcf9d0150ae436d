//! Bookings that end early, grow, shrink, or move.

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
use crate::plan::{Ask, Field, Goal};
use crate::rate_limit::RateLimit;
use crate::refusal::{Counter, Refusal};
use crate::request::{Detail, Need, Shape};
use crate::topology::Topology;

/// A booking whose promise has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Its number.
    pub id: Id,
    /// When it was to be over.
    pub was: Instant,
    /// When it is now.
    pub end: Instant,
}

/// Rules for what bookings may be moved to, beside what is free.
///
/// The calendar asks for each path before it looks there, and once more for the grant that it has found.
pub trait MoveRules {
    /// Learns that bookings have nothing more from now on until they are granted something else.
    fn displace(&mut self, _ids: &[Id]) {}

    /// Returns whether a booking may be moved to another path.
    fn may_take(&self, id: Id, path: &Path, topology: &Topology) -> bool;

    /// Returns a bound on the rate of a booking over time, beside what links have.
    fn rate_limit(&self, _id: Id) -> Option<RateLimit<'_>> {
        None
    }

    /// Refuses a grant in place of the one that a booking has; what is not refused is granted.
    fn check(&mut self, id: Id, was: &Grant, new: &Grant) -> Result<(), Refusal>;
}

/// Allows every move.
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

/// Bounds of the work of one repack; a repack takes from them what it has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepackLimits {
    /// Bookings that are packed again.
    pub bookings: usize,
    /// Steps that these have together: packing a booking takes time for each.
    pub steps: usize,
}

impl RepackLimits {
    /// No bound.
    pub const NONE: Self = Self {
        bookings: usize::MAX,
        steps: usize::MAX,
    };
}

/// Which bookings are packed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those that have not begun: no circuit that is in use changes.
    Waiting,
    /// Also the rest of those that have.
    All,
}

impl Calendar {
    /// Ends a booking; what it had from now on can be booked at once, and is returned.
    pub fn release(&mut self, now: Instant, id: Id) -> Result<Vec<Step>, Refusal> {
        let mut booking = self.bookings.remove(id).ok_or(Refusal::Missing(id))?;
        let rest = booking.grant.split_off(self.first_from(now));
        self.give(booking.request.owner, &booking.grant.path, &rest);
        Ok(rest)
    }

    /// Lets a booking be for more than it was. A file whose rate may vary takes what is free from now on; others get theirs
    /// longer, if nobody has booked what follows.
    pub fn extend(&mut self, now: Instant, id: Id, need: Need) -> Result<&Grant, Refusal> {
        let request = &self.booking_to_change(now, id)?.request;
        if compare(need, request.need) != Some(Ordering::Greater) {
            return Err(Refusal::Size(id));
        }
        let deadline = request.deadline.unwrap_or(Instant::NEVER);
        self.renew(now, id, need, &mut InTime { deadline })?;
        self.rewrite(id, need)
    }

    /// Lets a booking be for less than it was: it ends earlier, and keeps the steps until then.
    pub fn shrink(&mut self, now: Instant, id: Id, need: Need) -> Result<&Grant, Refusal> {
        let booking = self.booking_to_change(now, id)?;
        if need.is_nothing() {
            return Err(Refusal::Nothing);
        }
        if compare(need, booking.request.need) != Some(Ordering::Less) {
            return Err(Refusal::Size(id));
        }
        let end = match need {
            Need::Size { .. } => booking.grant.end_of(need.work()),
            Need::Hold(time) => booking.grant.start() + booking.grant.path.lasting(time),
        };
        let end = self.config.slot_from(end);
        if end <= now {
            return Err(Refusal::Size(id));
        }
        self.cut(id, end);
        self.rewrite(id, need)
    }

    /// Packs again, in the order of priority and of booking, what is still to come of bookings, as many as `limits` allow: each
    /// gets what there is now if with that it is over no later, so no booking loses by it. Says whose steps have changed, also of
    /// those that are over when they were to be.
    ///
    /// What was booked with a margin (section 4.3 of the paper) and ends early leaves room to those behind it. When each of
    /// them in turn takes what those before it leave, all have what they would have had without margins.
    pub fn repack(&mut self, now: Instant, scope: Scope, mut limits: RepackLimits) -> Vec<Moved> {
        self.repack_by(now, scope, &mut limits, &mut NoRules)
    }

    /// Packs again like [`Self::repack`], as far as `rules` allow. Ends before a booking that has more steps than `limits` has
    /// left, and leaves no steps then.
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
            let mut no_later = NoLater {
                rules,
                is_other: false,
            };
            let moved = self.renew(now, id, need, &mut no_later).ok();
            moves.extend(moved.filter(|_| no_later.is_other));
        }
        moves
    }

    /// The numbers of certain bookings, the highest priority first; of equal ones, who booked first.
    pub(crate) fn in_turn(&self, which: impl Fn(&Booking) -> bool) -> Vec<Id> {
        let bookings = self.bookings().filter(|(_, booking)| which(booking));
        let turns =
            bookings.map(|(id, booking)| (Reverse(booking.request.priority), booking.nth, id));
        let mut turns: Vec<_> = turns.collect();
        turns.sort_unstable();
        turns.into_iter().map(|(_, _, id)| id).collect()
    }

    /// Looks again for what a booking needs from now on, and lets it have that if the rules allow it; else it keeps what it
    /// has.
    pub(crate) fn renew(
        &mut self,
        now: Instant,
        id: Id,
        need: Need,
        rules: &mut impl MoveRules,
    ) -> Result<Moved, Refusal> {
        let now = self.first_from(now);
        let mut booking = self.bookings.remove(id).ok_or(Refusal::Missing(id))?;
        let (owner, was) = (booking.request.owner, booking.grant.clone());
        let rest = booking.grant.split_off(now);
        self.give(owner, &was.path, &rest);
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
                return Err(Refusal::Steps(self.config.steps_max));
            }
            rules.check(id, &was, &new).map(|()| (new, later))
        });
        let end = was.end();
        let (grant, later, moved) = match renewed {
            Ok((new, later)) => {
                let moved = Moved {
                    id,
                    was: end,
                    end: new.end(),
                };
                (new, later.steps, Ok(moved))
            }
            Err(why) => (was, rest, Err(why)),
        };
        self.take(owner, &grant.path, &later);
        booking.grant = grant;
        self.bookings.insert(id, booking);
        moved
    }

    /// What there is for the rest of what a booking needs, after its steps from now on have been given back. What has begun
    /// stays on its path and, where its rate may not vary, goes on without a break; so does what is held longer.
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
        let mut ask = Ask::of(&request, now, &self.config)?;
        let paths = match begun {
            None if stays => vec![Arc::clone(&was.path)],
            None => {
                let mut paths = self.paths(&request.way)?.into_owned();
                paths.retain(|path| *path == was.path || rules.may_take(id, path, self.topology()));
                paths
            }
            Some(last) => {
                ask.lit = if last.till == now {
                    last.rate.as_bps()
                } else {
                    0
                };
                ask.goal = match ask.goal {
                    Goal::Carry(work) => Goal::Carry(booking.grant.left(work)),
                    Goal::Fixed(work) => Goal::Fixed(booking.grant.left(work)),
                    Goal::Hold(time) => {
                        Goal::Hold((was.start() + was.path.lasting(time)).since(now))
                    }
                };
                vec![Arc::clone(&was.path)]
            }
        };
        let field = Field {
            limit: rules.rate_limit(id),
            ..self.field()
        };
        let found = field.best(&ask, &paths);
        if stays && found.as_ref().map(Grant::start) != Ok(ask.from) {
            let view = field.view(ask.owner, &was.path, ask.from);
            return Err(Refusal::Blocked(view.next_below(ask.on(&was.path)?.least)));
        }
        found
    }

    /// Ends a booking at a moment, and lets go of what it had from then on.
    pub(crate) fn cut(&mut self, id: Id, at: Instant) {
        let cut = self.bookings.change(id, |booking| {
            let rest = booking.grant.split_off(at);
            let path = Arc::clone(&booking.grant.path);
            (booking.request.owner, path, rest)
        });
        if let Some((owner, path, rest)) = cut {
            self.give(owner, &path, &rest);
        }
    }

    /// A booking that is not over.
    fn booking_to_change(&self, now: Instant, id: Id) -> Result<&Booking, Refusal> {
        let booking = self.bookings.find(id).ok_or(Refusal::Missing(id))?;
        let ahead = booking.grant.end() > now;
        ahead.then_some(booking).ok_or(Refusal::Over(id))
    }

    /// Notes what a booking is for since it was changed.
    fn rewrite(&mut self, id: Id, need: Need) -> Result<&Grant, Refusal> {
        self.bookings
            .change(id, |booking| booking.request.need = need);
        let booking = self.bookings.find(id).ok_or(Refusal::Missing(id))?;
        Ok(&booking.grant)
    }
}

/// A booking that is looked for again, after its steps from now on have been given back.
struct Renewal<'a> {
    id: Id,
    booking: &'a Booking,
    was: &'a Grant,
    need: Need,
}

/// Refuses what is over too late.
struct InTime {
    deadline: Instant,
}

impl MoveRules for InTime {
    fn may_take(&self, _id: Id, _path: &Path, _topology: &Topology) -> bool {
        true
    }

    fn check(&mut self, _id: Id, _was: &Grant, new: &Grant) -> Result<(), Refusal> {
        let late = Counter {
            end: Some(new.end()),
            ..Counter::default()
        };
        let in_time = new.end() <= self.deadline;
        in_time.then_some(()).ok_or(Refusal::Late(late))
    }
}

/// Refuses what is over later than before, or against other rules, and notes whether another grant was found.
struct NoLater<'a, R> {
    rules: &'a mut R,
    is_other: bool,
}

impl<R: MoveRules> MoveRules for NoLater<'_, R> {
    fn may_take(&self, id: Id, path: &Path, topology: &Topology) -> bool {
        self.rules.may_take(id, path, topology)
    }

    fn rate_limit(&self, id: Id) -> Option<RateLimit<'_>> {
        self.rules.rate_limit(id)
    }

    fn check(&mut self, id: Id, was: &Grant, new: &Grant) -> Result<(), Refusal> {
        if new.end() > was.end() {
            return Err(Refusal::Blocked(was.end()));
        }
        self.is_other = was != new;
        if self.is_other {
            return self.rules.check(id, was, new);
        }
        Ok(())
    }
}

/// Which of two needs is more, if they are of one kind.
fn compare(need: Need, other: Need) -> Option<Ordering> {
    match (need, other) {
        (Need::Size { .. }, Need::Size { .. }) => Some(need.work().cmp(&other.work())),
        (Need::Hold(time), Need::Hold(other)) => Some(time.cmp(&other)),
        _ => None,
    }
}
