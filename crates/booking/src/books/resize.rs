//! To make a reservation larger or smaller, and to pack again what waits.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_calendar::{Id, RepackLimits, SavedBooking, Scope};
use lighthaul_circuit::reservation::Verb;

use super::ask;
use super::ledger::{Ledger, REPACK_STEPS_MAX};
use super::moves::Moves;
use super::rivals::{Rivals, Wish};
use super::who::{Act, Role, Who};
use crate::error::{Error, Result};
use crate::word::{Change, Kind, Moment, Reservation};

impl Ledger {
    /// Makes a reservation larger, if `grow`, or smaller.
    pub(super) fn resize(
        &mut self,
        act: Act<'_>,
        id: u64,
        change: &Change,
        grow: bool,
    ) -> Result<()> {
        let now = act.now;
        let record = self.record(act.who, id)?;
        if !record.is_live() {
            return Err(Error::Refused(lighthaul_calendar::Refusal::Ended(Id(id))));
        }
        let full = ask::changed(&record.reservation.request, change)?;
        let need = ask::need(&full)?;
        let kept = self.kept(id)?;
        let at = now.instant();
        if grow {
            self.calendar.extend(at, Id(id), need)?;
        } else {
            self.calendar.shrink(at, Id(id), need)?;
            self.is_freed = true;
        }
        let old = self.remove(id).ok_or_else(|| Error::missing(id))?;
        let mut new = old.clone();
        if let Some(booking) = self.calendar.booking(Id(id)) {
            new.grant(booking.grant(), self.calendar.topology());
        }
        new.reservation.request = full;
        let allowed = self.check_larger(act, &new.reservation);
        if grow && allowed.is_err() {
            self.insert(old);
            self.calendar.release(at, Id(id))?;
            self.calendar.restore(at, Id(id), kept)?;
            return allowed;
        }
        let noted = new.note(act, if grow { Verb::Extend } else { Verb::Shrink });
        self.insert(new);
        self.note_record(id);
        noted?;
        self.tell(act, id, Kind::Resized)
    }

    /// Refuses a reservation that was made larger, and is not in the books, if its owner may not have so much, or if
    /// another circuit carries its packets then.
    fn check_larger(&self, act: Act<'_>, new: &Reservation) -> Result<()> {
        let owner = &new.owner;
        self.tally.check_work(&self.config, owner, &new.steps)?;
        let is_bound = act.who.role == Role::User;
        if is_bound {
            let policy = self.config.policy_of(owner);
            policy.check_end(owner, act.now, new.promised_end)?;
            policy.check_links(owner, &new.path)?;
            if let Some(flow) = &new.request.flow {
                policy.check_flow(owner, flow)?;
            }
        }
        self.rivals().check(&Wish {
            id: Some(new.id),
            owner,
            flow: new.request.flow.as_ref(),
            steps: &new.steps,
            is_bound,
        })
    }

    /// Lets those who wait have what others have left, if anybody has: some are over earlier, nobody is later.
    pub(super) fn settle(&mut self, now: Moment) -> Result<()> {
        if !std::mem::take(&mut self.is_freed) || self.config.repack_max == 0 {
            return Ok(());
        }
        let from = now.instant() + self.config.notice;
        let last = std::mem::replace(&mut self.repack_at, now).0;
        let refill = now.0.saturating_sub(last) / NANOS_PER_STEP;
        let refill = usize::try_from(refill).unwrap_or(usize::MAX);
        let steps = self
            .repack_steps
            .saturating_add(refill)
            .min(REPACK_STEPS_MAX);
        let mut limits = RepackLimits {
            bookings: self.config.repack_max,
            steps,
        };
        let rivals = Rivals {
            config: &self.config,
            records: &self.records,
            tally: &self.tally,
            effort: &self.effort,
            moved: BTreeMap::new(),
        };
        let mut rules = Moves::new(rivals, now);
        let calendar = &mut self.calendar;
        let moved = calendar.repack_by(from, Scope::Waiting, &mut limits, &mut rules);
        let looked_at = self.config.repack_max - limits.bookings;
        self.repack_steps = limits.steps.saturating_sub(looked_at * STEPS_EACH);
        // a repack that had not all the steps that it may have goes on with the clock
        self.is_freed = limits.steps == 0 && steps < REPACK_STEPS_MAX;
        let who = Who::new("calendar", Role::Operator);
        for moved in moved {
            let earlier = Duration::as_secs_f64(&moved.was.since(moved.end));
            let why = if moved.end < moved.was {
                format!("others left room: over {earlier} s earlier")
            } else {
                "others left room: other rates, over at the same time".to_owned()
            };
            let act = Act {
                now,
                who: &who,
                why: &why,
            };
            self.regrant(act, moved.id.0)?;
        }
        Ok(())
    }

    /// A booking as it is.
    fn kept(&self, id: u64) -> Result<SavedBooking> {
        let booking = self
            .calendar
            .booking(Id(id))
            .ok_or_else(|| Error::missing(id))?;
        Ok(SavedBooking {
            sequence: booking.sequence(),
            request: booking.request().clone(),
            path: std::sync::Arc::clone(booking.grant().path()),
            steps: booking.grant().steps().to_vec(),
        })
    }
}

/// Steps that a booking counts for, beside its own.
const STEPS_EACH: usize = 32;
/// Time in which the books may look at one more step, in nanoseconds: some 30,000 steps a second, so that a client that books
/// and cancels all the time leaves the calendar to others.
const NANOS_PER_STEP: u64 = 30_000;
