//! Reservations and quotes.

use std::collections::BTreeMap;

use lighthaul_calendar::{Grant, Id, Request};
use lighthaul_circuit::reservation::{State, Verb};

use super::ask;
use super::ledger::{Answer, Ledger};
use super::record::{self, Record};
use super::rivals::{Rivals, Wish};
use super::who::{Act, Role, Who};
use crate::error::{Error, RequestError, Result};
use crate::json::{EventKind, NewReservation, Quote, Reservation, Step, Timestamp};

impl Ledger {
    /// Reserves capacity. A repeated request with the same key gets the same answer.
    pub(super) fn reserve(
        &mut self,
        now: Timestamp,
        who: &Who,
        new: &NewReservation,
        key: Option<&str>,
    ) -> Result<Reservation> {
        who.check_owner()?;
        let Some(key) = key else {
            return self.reserve_once(now, who, new);
        };
        if key.is_empty() || key.len() > KEY_MAX {
            return Err(RequestError::KeyLength(KEY_MAX).into());
        }
        let place = serde_json::to_string(&(&who.name, key))?;
        let body = serde_json::to_string(new)?;
        if let Some(answer) = self.answers.get(&place) {
            let is_same = answer.body == body;
            let same = is_same.then(|| answer.reservation.clone());
            return same.ok_or_else(|| Error::KeyReused(key.to_owned()));
        }
        let reservation = self.reserve_once(now, who, new)?;
        let answer = Answer {
            at: now,
            body,
            reservation: reservation.clone(),
        };
        self.insert_answer(place.clone(), answer);
        self.note_answer(place);
        Ok(reservation)
    }

    /// Returns the grant that a request would get.
    pub(super) fn quote(&self, now: Timestamp, who: &Who, new: &NewReservation) -> Result<Quote> {
        let plan = self.plan(now, who, new)?;
        Ok(Quote {
            path: plan.path,
            steps: plan.steps,
            promised_end: plan.grant.end().into(),
        })
    }

    /// Returns the grant that a request would get, if all rules permit it.
    fn plan(&self, now: Timestamp, who: &Who, new: &NewReservation) -> Result<Plan> {
        let policy = self.config.policy_of(&who.name);
        let is_bound = who.role == Role::User;
        let fastest = policy.rate_max.filter(|_| is_bound);
        let full = ask::complete(new, now, &self.calendar, fastest)?;
        let owner = self.config.number_of(&who.name);
        let request = ask::read(&full, self.calendar.topology(), owner)?;
        if let Some(flow) = new.flow.as_ref().filter(|_| is_bound) {
            policy.check_flow(&who.name, flow)?;
        }
        let grant = self.calendar.quote(now.instant(), &request)?;
        let plan = Plan {
            path: record::names(&grant, self.calendar.topology()),
            steps: record::steps(&grant.joined()),
            full,
            request,
            grant,
        };
        if is_bound {
            policy.check_links(&who.name, &plan.path)?;
            policy.check_end(&who.name, now, plan.grant.end().into())?;
        }
        self.check_rivals(now, who, &plan)?;
        Ok(plan)
    }

    /// Refuses packets that another circuit carries at that time, and names a time at which they
    /// are free.
    fn check_rivals(&self, now: Timestamp, who: &Who, plan: &Plan) -> Result<()> {
        let rivals = self.rivals();
        let flow = plan.full.flow.as_ref();
        rivals.check_room(self.calendar.topology(), flow)?;
        let wish = Wish {
            id: None,
            owner: &who.name,
            flow,
            steps: &plan.steps,
            is_bound: who.role == Role::User,
        };
        let Some((flow, first)) = flow.zip(rivals.rival(&wish)) else {
            return rivals.check(&wish);
        };
        let (mut rival, mut request) = (first, plan.request.clone());
        for _ in 0..TRIES {
            request.from = rival.till.instant();
            let Ok(grant) = self.calendar.quote(now.instant(), &request) else {
                break;
            };
            let steps = record::steps(&grant.joined());
            let later = Wish {
                steps: &steps,
                ..wish
            };
            let Some(next) = rivals.rival(&later) else {
                return Err(first.refusal(flow, Some(rival.till)).into());
            };
            rival = next;
        }
        Err(first.refusal(flow, None).into())
    }

    /// Returns the view of all reservations for conflict checks.
    pub(super) const fn rivals(&self) -> Rivals<'_> {
        Rivals {
            config: &self.config,
            records: &self.records,
            tally: &self.tally,
            effort: &self.effort,
            moved: BTreeMap::new(),
        }
    }

    fn reserve_once(
        &mut self,
        now: Timestamp,
        who: &Who,
        new: &NewReservation,
    ) -> Result<Reservation> {
        self.tally.check_count(&self.config, &who.name)?;
        let Plan {
            full,
            request,
            grant,
            path,
            steps,
        } = self.plan(now, who, new)?;
        self.tally.check_work(&self.config, &who.name, &steps)?;
        let id = self.next_id();
        self.calendar.book(now.instant(), Id(id), &request)?;
        let nth = self
            .calendar
            .booking(Id(id))
            .map_or(0, lighthaul_calendar::Booking::sequence);
        let hold_till = Timestamp(now.0.saturating_add(self.config.hold.as_nanos() as u64));
        let reservation = Reservation {
            id,
            owner: who.name.clone(),
            state: State::Reserved,
            path,
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
        record.by_operator = who.role >= Role::Operator;
        let noted = record.note(act, Verb::Reserve);
        self.insert(record);
        self.note_record(id);
        noted?;
        self.tell(act, id, EventKind::Reserved)?;
        if commit {
            let why = "committed with the request";
            self.commit(Act { why, ..act }, id)?;
        }
        Ok(self.record(who, id)?.reservation.clone())
    }
}

/// Request and its grant.
struct Plan {
    full: NewReservation,
    request: Request,
    grant: Grant,
    path: Vec<String>,
    steps: Vec<Step>,
}

/// Maximum number of conflicting reservations that are skipped in the search for a free time.
const TRIES: usize = 64;
/// Maximum length of an idempotency key in bytes.
const KEY_MAX: usize = 255;
