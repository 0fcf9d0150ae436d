//! Reservations and quotes.
//!
//! `Ledger::quote` returns the grant of a request, and `Ledger::reserve` also books it. Both use
//! one plan, which checks the policy, the capacity and conflicts between circuits. Only a
//! reservation is checked against quotas. For a conflict, the refusal names a later time at which
//! the packets are free, if the search finds one. A new reservation is held until `hold_till`,
//! unless the request commits it. With an idempotency key, a repeated request returns the first
//! answer and books nothing.

use lighthaul_booking_client::json::{
    EventKind, NewReservation, Quote, Reservation, Step, Timestamp,
};
use lighthaul_booking_client::reservation::{ReservationState, Verb};
use lighthaul_calendar::{Grant, Id, Request};

use super::conflicts::{Candidate, Conflicts};
use super::ledger::{Answer, Ledger};
use super::principal::{Action, Principal};
use super::record::{self, Record, Withheld};
use super::request;
use super::uncommitted::Holds;
use crate::error::{Error, RequestError, Result};
use lighthaul_booking_client::role::Role;

impl Ledger {
    /// Reserves capacity. A repeated request with the same key gets the same answer.
    pub(super) fn reserve(
        &mut self,
        now: Timestamp,
        principal: &Principal,
        new: &NewReservation,
        key: Option<&str>,
    ) -> Result<Reservation> {
        principal.check_owner()?;
        let Some(key) = key else {
            return self.reserve_once(now, principal, new);
        };
        if key.is_empty() || key.len() > KEY_MAX {
            return Err(RequestError::KeyLength(KEY_MAX).into());
        }
        let place = serde_json::to_string(&(&principal.name, key))?;
        let body = serde_json::to_string(new)?;
        if let Some(answer) = self.answers.get(&place) {
            let is_same = answer.body == body;
            let same = is_same.then(|| answer.reservation.clone());
            return same.ok_or_else(|| Error::KeyReused(key.to_owned()));
        }
        let reservation = self.reserve_once(now, principal, new)?;
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
    pub(super) fn quote(
        &self,
        now: Timestamp,
        principal: &Principal,
        new: &NewReservation,
    ) -> Result<Quote> {
        let plan = self.plan(now, principal, new)?;
        Ok(Quote {
            path: plan.path,
            steps: plan.steps,
            promised_end: plan.grant.end().into(),
        })
    }

    /// Returns the grant that a request would get, if all rules permit it.
    fn plan(&self, now: Timestamp, principal: &Principal, new: &NewReservation) -> Result<Plan> {
        let policy = self.config.policy_of(&principal.name);
        let is_bound = principal.role == Role::User;
        let fastest = policy.rate_max.filter(|_| is_bound);
        let full = request::complete(new, now, &self.calendar, fastest)?;
        let owner = self.config.number_of(&principal.name);
        let request = request::read(&full, self.calendar.topology(), owner)?;
        if let Some(flow) = new.flow.as_ref().filter(|_| is_bound) {
            policy.check_flow(&principal.name, flow)?;
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
            policy.check_links(&principal.name, &plan.path)?;
            policy.check_end(&principal.name, now, plan.grant.end().into())?;
        }
        self.check_conflicts(now, principal, &plan)?;
        Ok(plan)
    }

    /// Refuses packets that another circuit carries at the same time, and names a time at which they are free.
    fn check_conflicts(&self, now: Timestamp, principal: &Principal, plan: &Plan) -> Result<()> {
        let conflicts = self.conflicts();
        let flow = plan.full.flow.as_ref();
        conflicts.check_room(self.calendar.topology(), flow)?;
        let candidate = Candidate {
            id: None,
            owner: &principal.name,
            flow,
            steps: &plan.steps,
            is_bound: principal.role == Role::User,
        };
        let Some((flow, first)) = flow.zip(conflicts.conflict(&candidate)) else {
            return conflicts.check(&candidate);
        };
        let (mut conflict, mut request) = (first, plan.request.clone());
        for _ in 0..TRIES {
            request.from = conflict.till.instant();
            let Ok(grant) = self.calendar.quote(now.instant(), &request) else {
                break;
            };
            let steps = record::steps(&grant.joined());
            let later = Candidate {
                steps: &steps,
                ..candidate
            };
            let Some(next) = conflicts.conflict(&later) else {
                return Err(first.refusal(flow, Some(conflict.till)).into());
            };
            conflict = next;
        }
        Err(first.refusal(flow, None).into())
    }

    /// Returns the view of all reservations for conflict checks.
    pub(super) const fn conflicts(&self) -> Conflicts<'_> {
        Conflicts::new(&self.config, &self.records, &self.usage, &self.step_counter)
    }

    fn reserve_once(
        &mut self,
        now: Timestamp,
        principal: &Principal,
        new: &NewReservation,
    ) -> Result<Reservation> {
        self.usage.check_count(&self.config, &principal.name)?;
        let Plan {
            full,
            request,
            grant,
            path,
            steps,
        } = self.plan(now, principal, new)?;
        self.usage
            .check_work(&self.config, &principal.name, &steps)?;
        let limit = self.config.uncommitted_max(principal);
        if let Some(most) = limit.filter(|_| !new.commit) {
            let holds = Holds {
                records: &self.records,
                topology: self.calendar.topology(),
            };
            let owner = (principal.name.as_str(), most);
            self.uncommitted.check(holds, owner, &path, now)?;
        }
        let id = self.next_id();
        self.calendar.book(now.instant(), Id(id), &request)?;
        let nth = self
            .calendar
            .booking(Id(id))
            .map_or(0, lighthaul_calendar::Booking::sequence);
        let hold_till = Timestamp(now.0.saturating_add(self.config.hold.as_nanos() as u64));
        let reservation = Reservation {
            id,
            owner: principal.name.clone(),
            state: ReservationState::Reserved,
            path,
            steps,
            packet_overhead_bytes: grant.path().packet_bytes(),
            promised_end: grant.end().into(),
            hold_till: Some(hold_till),
            created: now,
            changed: now,
            journal: Vec::new(),
            failure: None,
            request: full,
        };
        let commit = reservation.request.commit;
        let act = Action {
            now,
            principal,
            why: "",
        };
        let mut record = Record::new(reservation, nth, hold_till);
        record.by_operator = principal.role >= Role::Operator;
        record.withheld = limit.map(|_| Withheld::of(&record.reservation.steps));
        let noted = record.note(act, Verb::Reserve);
        self.insert(record);
        self.note_record(id);
        noted?;
        self.add_event(act, id, EventKind::Reserved)?;
        if commit {
            let why = "committed with the request";
            self.commit(Action { why, ..act }, id)?;
        }
        Ok(self.record(principal, id)?.reservation.clone())
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
