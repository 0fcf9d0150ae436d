//! To reserve, and to ask what would come of it.

use lighthaul_circuit::reservation::{State, Verb};
use lighthaul_schedule::Id;

use super::ask;
use super::ledger::{Answer, Ledger};
use super::record::{self, Record};
use super::who::{Act, Who};
use crate::error::{Error, Result};
use crate::word::{Kind, Moment, NewReservation, Quote, Reservation};

impl Ledger {
    /// Reserves; who asks again with the same key hears the same again.
    pub(super) fn reserve(
        &mut self,
        now: Moment,
        who: &Who,
        new: &NewReservation,
        key: Option<&str>,
    ) -> Result<Reservation> {
        who.check_owner()?;
        let Some(key) = key else {
            return self.reserve_once(now, who, new);
        };
        if key.is_empty() || key.len() > KEY_MAX {
            return Err(Error::Misuse(format!(
                "an idempotency key has from 1 to {KEY_MAX} bytes: give a shorter one, say a UUID"
            )));
        }
        let place = serde_json::to_string(&(&who.name, key))?;
        let body = serde_json::to_string(new)?;
        if let Some(answer) = self.answers.get(&place) {
            let is_same = answer.body == body;
            let same = is_same.then(|| answer.reservation.clone());
            return same.ok_or_else(|| Error::Conflict(key.to_owned()));
        }
        if self.answers.len() >= self.config.answers_max {
            return Err(Error::Quota(
                "as many idempotency keys are known as may be: try again later, or without one"
                    .to_owned(),
            ));
        }
        let reservation = self.reserve_once(now, who, new)?;
        let answer = Answer {
            at: now,
            body,
            reservation: reservation.clone(),
        };
        self.answers.insert(place.clone(), answer);
        self.note_answer(place);
        Ok(reservation)
    }

    /// What would be granted.
    pub(super) fn quote(&self, now: Moment, who: &Who, new: &NewReservation) -> Result<Quote> {
        let full = ask::complete(new, now, &self.calendar, &self.config)?;
        let topology = self.calendar.topology();
        let request = ask::read(&full, topology, self.config.number_of(&who.name))?;
        let grant = self.calendar.quote(now.instant(), &request)?;
        Ok(Quote {
            path: record::names(&grant, topology),
            steps: record::steps(&grant.joined()),
            promised_end: grant.end().into(),
        })
    }

    fn reserve_once(
        &mut self,
        now: Moment,
        who: &Who,
        new: &NewReservation,
    ) -> Result<Reservation> {
        self.tally.check_count(&self.config, &who.name)?;
        let full = ask::complete(new, now, &self.calendar, &self.config)?;
        let owner = self.config.number_of(&who.name);
        let request = ask::read(&full, self.calendar.topology(), owner)?;
        let grant = self.calendar.quote(now.instant(), &request)?;
        let steps = record::steps(&grant.joined());
        self.tally.check_work(&self.config, &who.name, &steps)?;
        let id = self.next_id();
        self.calendar.book(now.instant(), Id(id), &request)?;
        let nth = self
            .calendar
            .booking(Id(id))
            .map_or(0, lighthaul_schedule::Booking::nth);
        let hold_till = Moment(now.0.saturating_add(self.config.hold.as_nanos() as u64));
        let reservation = Reservation {
            id,
            owner: who.name.clone(),
            state: State::Reserved,
            path: record::names(&grant, self.calendar.topology()),
            steps,
            promised_end: grant.end().into(),
            hold_till: Some(hold_till),
            created: now,
            changed: now,
            journal: Vec::new(),
            failure: None,
            request: full,
        };
        let commit = reservation.request.commit;
        let act = Act { now, who, why: "" };
        let mut record = Record::new(reservation, nth, hold_till);
        let noted = record.note(act, Verb::Reserve);
        self.insert(record);
        self.note_record(id);
        noted?;
        self.tell(act, id, Kind::Reserved)?;
        if commit {
            let why = "at once";
            self.commit(Act { why, ..act }, id)?;
        }
        Ok(self.record(who, id)?.reservation.clone())
    }
}

/// The longest idempotency key.
const KEY_MAX: usize = 255;
