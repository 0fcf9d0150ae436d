//! To make a reservation larger or smaller, and to pack again what waits.

use std::time::Duration;

use lighthaul_circuit::reservation::Verb;
use lighthaul_schedule::{Id, Kept, Scope};

use super::ask;
use super::ledger::Ledger;
use super::who::{Act, Role, Who};
use crate::error::{Error, Result};
use crate::word::{Change, Kind, Moment};

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
            return Err(Error::Refused(lighthaul_schedule::Refusal::Over(Id(id))));
        }
        let full = ask::changed(&record.reservation.request, change)?;
        let need = ask::need(&full)?;
        let owner = record.reservation.owner.clone();
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
        let allowed = self
            .tally
            .check_work(&self.config, &owner, &new.reservation.steps);
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

    /// Lets those who wait have what others have left, if anybody has: some are over earlier, nobody is later.
    pub(super) fn settle(&mut self, now: Moment) -> Result<()> {
        if !std::mem::take(&mut self.is_freed) || self.config.repack_max == 0 {
            return Ok(());
        }
        let from = now.instant() + self.config.notice;
        let moved = self
            .calendar
            .repack(from, Scope::Waiting, self.config.repack_max);
        let who = Who::new("calendar", Role::Operator);
        for moved in moved {
            let earlier = Duration::as_secs_f64(&moved.was.since(moved.end));
            let act = Act {
                now,
                who: &who,
                why: &format!("others left room: over {earlier} s earlier"),
            };
            self.regrant(act, moved.id.0)?;
        }
        Ok(())
    }

    /// A booking as it is.
    fn kept(&self, id: u64) -> Result<Kept> {
        let booking = self
            .calendar
            .booking(Id(id))
            .ok_or_else(|| Error::missing(id))?;
        Ok(Kept {
            nth: booking.nth(),
            request: booking.request().clone(),
            path: std::sync::Arc::clone(booking.grant().path()),
            steps: booking.grant().steps().to_vec(),
        })
    }
}
