//! Extension and reduction of reservations, and repacking of reservations that wait.

use std::time::Duration;

use lighthaul_booking_client::json::{Change, EventKind, Reservation, Timestamp};
use lighthaul_booking_client::reservation::Verb;
use lighthaul_calendar::{Id, SavedBooking, Scope};

use super::conflicts::{Candidate, Conflicts};
use super::ledger::Ledger;
use super::move_policy::MovePolicy;
use super::principal::{Action, Principal};
use super::request;
use crate::error::{Error, Result};
use lighthaul_booking_client::role::Role;

impl Ledger {
    /// Extends a reservation if `grow` is set, and shrinks it otherwise.
    pub(super) fn resize(
        &mut self,
        act: Action<'_>,
        id: u64,
        change: &Change,
        grow: bool,
    ) -> Result<()> {
        let now = act.now;
        let record = self.record(act.principal, id)?;
        if !record.is_live() {
            return Err(Error::Refused(lighthaul_calendar::Refusal::Ended(Id(id))));
        }
        let full = request::changed(&record.reservation.request, change)?;
        let need = request::need(&full)?;
        let kept = self.kept(id)?;
        let at = now.instant();
        if grow {
            self.calendar.extend(at, Id(id), need)?;
        } else {
            self.calendar.shrink(at, Id(id), need)?;
            self.repack.is_due = true;
        }
        let old = self.remove(id).ok_or_else(|| Error::no_reservation(id))?;
        let mut new = old.clone();
        if let Some(booking) = self.calendar.booking(Id(id)) {
            new.grant(booking.grant(), self.calendar.topology());
        }
        new.reservation.request = full;
        let allowed = self.check_larger(act, &new.reservation);
        if grow && allowed.is_err() {
            self.insert(old);
            self.calendar.remove(at, Id(id))?;
            self.calendar.restore(at, Id(id), kept)?;
            return allowed;
        }
        let noted = new.note(act, if grow { Verb::Extend } else { Verb::Shrink });
        self.insert(new);
        self.note_record(id);
        noted?;
        self.add_event(act, id, EventKind::Resized)
    }

    /// Refuses an extended reservation that exceeds the rights of its owner or conflicts with
    /// another circuit. The ledger does not contain it yet.
    fn check_larger(&self, act: Action<'_>, new: &Reservation) -> Result<()> {
        let owner = &new.owner;
        self.usage.check_work(&self.config, owner, &new.steps)?;
        let is_bound = act.principal.role == Role::User;
        if is_bound {
            let policy = self.config.policy_of(owner);
            policy.check_end(owner, act.now, new.promised_end)?;
            policy.check_links(owner, &new.path)?;
            if let Some(flow) = &new.request.flow {
                policy.check_flow(owner, flow)?;
            }
        }
        self.conflicts().check(&Candidate {
            id: Some(new.id),
            owner,
            flow: new.request.flow.as_ref(),
            steps: &new.steps,
            is_bound,
        })
    }

    /// Moves waiting reservations into capacity that was freed, if any. None of them ends later
    /// than before.
    pub(super) fn settle(&mut self, now: Timestamp) -> Result<()> {
        let Some(had) = self.repack.start(now, self.config.repack_max) else {
            return Ok(());
        };
        let mut left = had;
        let conflicts =
            Conflicts::new(&self.config, &self.records, &self.usage, &self.step_counter);
        let mut rules = MovePolicy::new(conflicts, now);
        let from = now.instant() + self.config.notice;
        let calendar = &mut self.calendar;
        let moved = calendar.repack_by(from, Scope::Waiting, &mut left, &mut rules);
        self.repack.finish(had, left);
        let principal = Principal::new("calendar", Role::Operator);
        for moved in moved {
            let earlier = Duration::as_secs_f64(&moved.was.since(moved.end));
            let why = if moved.end < moved.was {
                format!("capacity was freed: ends {earlier} s earlier")
            } else {
                "capacity was freed: links or rates changed, same end".to_owned()
            };
            let act = Action {
                now,
                principal: &principal,
                why: &why,
            };
            self.regrant(act, moved.id.0)?;
        }
        Ok(())
    }

    /// Returns a booking, to be restored later.
    fn kept(&self, id: u64) -> Result<SavedBooking> {
        let booking = self
            .calendar
            .booking(Id(id))
            .ok_or_else(|| Error::no_reservation(id))?;
        Ok(SavedBooking {
            sequence: booking.sequence(),
            request: booking.request().clone(),
            path: std::sync::Arc::clone(booking.grant().path()),
            steps: booking.grant().steps().to_vec(),
        })
    }
}
