//! Changes at due times.

use lighthaul_booking_client::json::Timestamp;
use lighthaul_booking_client::reservation::Verb;

use super::ledger::Ledger;
use super::principal::{Action, Principal};
use crate::error::Result;
use lighthaul_booking_client::role::Role;

impl Ledger {
    /// Makes the changes that are due: holds expire, and reservations start and end.
    pub(super) fn tick(&mut self, now: Timestamp) -> Result<()> {
        let clock = Principal::new("clock", Role::Operator);
        while let Some(&(at, id)) = self.due.first()
            && at <= now
        {
            self.due.remove(&(at, id));
            let due = self.records.get(&id).and_then(super::record::Record::due);
            let Some((_, verb)) = due else {
                continue;
            };
            let act = Action {
                now,
                principal: &clock,
                why: reason(verb),
            };
            self.transition(act, id, verb)?;
        }
        if self.forget_at <= now {
            self.forget(now);
        }
        Ok(())
    }

    /// Deletes old objects from memory, and leaves their deletion in the store to the writer.
    pub(super) fn forget_unwritten(&mut self, now: Timestamp) {
        if self.forget_at <= now {
            self.forget(now);
            self.leave_unwritten();
        }
    }

    /// Deletes objects while they use too much memory. Deleted reservations still count for the
    /// quota of their window.
    pub(super) fn trim(&mut self) {
        while let Some(key) = self.answer_shares.beyond(self.config.answers_bytes_max) {
            self.remove_answer(&key);
            self.note_answer(key);
        }
        while let Some(id) = self.history.beyond(self.config.history_bytes_max) {
            self.drop_over(id);
            self.note_record(id);
        }
    }

    /// Deletes objects that ended long ago.
    fn forget(&mut self, now: Timestamp) {
        self.forget_at = Timestamp(now.0.saturating_add(FORGET_EVERY));
        self.calendar.forget(now.instant());
        self.usage.forget(&self.config, now);
        self.uncommitted.forget(now);
        let before =
            |time: std::time::Duration| Timestamp(now.0.saturating_sub(time.as_nanos() as u64));
        let (history, answers) = (
            before(self.config.history),
            before(self.config.answers_kept),
        );
        let is_old = |(id, record): (&u64, &super::record::Record)| {
            (!record.is_live() && record.reservation.changed < history).then_some(*id)
        };
        let old: Vec<u64> = self.records.iter().filter_map(is_old).collect();
        for id in old {
            self.remove(id);
            self.note_record(id);
        }
        // other instances must see a canceled outage, so it is kept as long as reservations
        let old: Vec<u64> = self
            .outages
            .values()
            .filter(|outage| outage.till < history)
            .map(|outage| outage.id)
            .collect();
        for id in old {
            self.outages.remove(&id);
            self.note_outage(id);
        }
        let old: Vec<String> = self
            .answers
            .iter()
            .filter(|(_, answer)| answer.at < answers)
            .map(|(key, _)| key.clone())
            .collect();
        for key in old {
            self.remove_answer(&key);
            self.note_answer(key);
        }
        self.trim();
    }
}

const fn reason(verb: Verb) -> &'static str {
    match verb {
        Verb::TimeOut => "the hold expired before the commit",
        Verb::Activate => "its start time was reached",
        Verb::Terminate => "its end time was reached before it was provisioned",
        Verb::Reserve
        | Verb::Extend
        | Verb::Shrink
        | Verb::Move
        | Verb::Commit
        | Verb::Provision
        | Verb::Deprovision
        | Verb::Release
        | Verb::Fail => "its end time was reached",
    }
}

/// One minute in nanoseconds.
const FORGET_EVERY: u64 = 60_000_000_000;
