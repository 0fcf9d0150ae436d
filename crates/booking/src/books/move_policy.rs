//! Rules for moving reservations, after an outage or when capacity is freed.
//!
//! `MovePolicy` implements [`MoveRules`]. The calendar searches for new grants and asks these
//! rules:
//!
//! 1. `displace` removes the rates of reservations that an outage displaced.
//! 2. `may_take` and `rate_limit` restrict the search to permitted links and the free rate.
//! 3. `check` accepts or refuses a grant. It counts an accepted grant in all later checks.
//!
//! Quotas of bytes apply to all. Bookings by operators may use any link and end. The rules only decide: they move nothing.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_booking_client::json::{Step, Timestamp};
use lighthaul_calendar::{Grant, Id, MoveRules, Path, RateLimit, Refusal, Topology};

use super::conflicts::{Candidate, Conflicts};
use super::moved_work::{MovedWork, WorkMove, split};
use super::policy::Policy;
use super::rate_sum::RateSum;
use super::record::{Record, names_of, steps};

/// Rules of the books: a moved circuit must not overlap another, and links, rates, ends and bytes must be
/// within the policy of the owner.
///
/// A displaced reservation has no rate until it is moved. The search for its new place is limited
/// to the remaining rate of its owner.
#[derive(Debug)]
pub(super) struct MovePolicy<'a> {
    conflicts: Conflicts<'a>,
    now: Timestamp,
    /// Reservations that an outage has displaced and that are not moved yet.
    displaced: BTreeSet<u64>,
    /// Rates of owners; they include moved reservations, but not displaced reservations.
    rates: BTreeMap<&'a str, RateSum>,
    /// Changes of the bytes of owners, by the moves and by the removal of displaced reservations.
    work: MovedWork<'a>,
}

impl<'a> MovePolicy<'a> {
    /// Returns the rules for the present reservations.
    pub(super) fn new(conflicts: Conflicts<'a>, now: Timestamp) -> Self {
        Self {
            conflicts,
            now,
            displaced: BTreeSet::new(),
            rates: BTreeMap::new(),
            work: MovedWork::default(),
        }
    }

    /// Returns the policy that applies to a reservation, if any.
    fn policy_of(&self, record: &Record) -> Option<&'a Policy> {
        let config = self.conflicts.config;
        (!record.by_operator).then(|| config.policy_of(&record.reservation.owner))
    }

    fn may_have(&mut self, id: u64, was: &Grant, new: &Grant) -> bool {
        let Some(record) = self.conflicts.records.get(&id) else {
            return true;
        };
        let owner = &record.reservation.owner;
        let steps = steps(&new.joined());
        let candidate = Candidate {
            id: Some(id),
            owner,
            flow: record.reservation.request.flow.as_ref(),
            steps: &steps,
            is_bound: false,
        };
        if self.conflicts.conflict(&candidate).is_some() {
            return false;
        }
        if let Some(policy) = self.policy_of(record) {
            let is_later = new.end() > was.end();
            if is_later && policy.check_end(owner, self.now, new.end().into()).is_err() {
                return false;
            }
        }
        // if a booking is moved twice, the steps of the first move count
        let was = self.conflicts.moved.get(&id).cloned();
        let was = was.unwrap_or_else(|| record.reservation.steps.clone());
        let counted = if self.displaced.contains(&id) {
            let [before, _] = split(&was, self.now);
            before
        } else {
            was.clone()
        };
        let moved = WorkMove {
            owner,
            was: &was,
            counted: &counted,
            new: &steps,
        };
        let Conflicts { config, usage, .. } = self.conflicts;
        let may =
            self.work.may_have(config, usage, &moved) && self.may_have_rates(record, &was, &steps);
        if may {
            self.work.count(config, &moved);
            self.displaced.remove(&id);
            self.conflicts.moved.insert(id, steps);
        }
        may
    }

    /// Returns true if the owner may have `steps` instead of `own`, those of `record`, and counts them.
    fn may_have_rates(&mut self, record: &'a Record, own: &[Step], steps: &[Step]) -> bool {
        let Some(policy) = self.limit_of(record) else {
            return true;
        };
        let (id, owner) = (record.reservation.id, record.reservation.owner.as_str());
        if self.displaced.contains(&id) {
            // the search was already within the limit
            self.conflicts.step_counter.add(steps);
            self.rates_of(owner).add(steps);
            return true;
        }
        self.conflicts.step_counter.add(own);
        self.conflicts.step_counter.add(steps);
        let rates = self.rates_of(owner);
        rates.remove(own);
        let (most, beside) = rates.peak(steps);
        let may = record.by_operator || policy.check_rate(owner, most, beside).is_ok();
        rates.add(if may { steps } else { own });
        may
    }

    /// Returns the policy of an owner if it limits rates.
    fn limit_of(&self, record: &Record) -> Option<&'a Policy> {
        let policy = self.conflicts.config.policy_of(&record.reservation.owner);
        policy.rate_max.is_some().then_some(policy)
    }

    fn rates_of(&mut self, owner: &'a str) -> &mut RateSum {
        let usage = self.conflicts.usage;
        let rates = self.rates.entry(owner);
        rates.or_insert_with(|| usage.rates(owner).cloned().unwrap_or_default())
    }
}

impl MoveRules for MovePolicy<'_> {
    fn displace(&mut self, ids: &[Id]) {
        let records = self.conflicts.records;
        for record in ids.iter().filter_map(|id| records.get(&id.0)) {
            let reservation = &record.reservation;
            let (owner, steps) = (reservation.owner.as_str(), &reservation.steps);
            if !self.displaced.insert(reservation.id) {
                continue;
            }
            if self.limit_of(record).is_some() {
                self.conflicts.step_counter.add(steps);
                self.rates_of(owner).remove(steps);
            }
            let [_, rest] = split(steps, self.now);
            let removed = WorkMove {
                owner,
                was: steps,
                counted: &rest,
                new: &[],
            };
            self.work.count(self.conflicts.config, &removed);
        }
    }

    fn may_take(&self, Id(id): Id, path: &Path, topology: &Topology) -> bool {
        let Some(record) = self.conflicts.records.get(&id) else {
            return true;
        };
        let Some(policy) = self.policy_of(record) else {
            return true;
        };
        let reservation = &record.reservation;
        // a reservation may stay on a link that a changed policy no longer permits
        let mut new = names_of(path, topology);
        new.retain(|link| !reservation.path.contains(link));
        policy.check_links(&reservation.owner, &new).is_ok()
    }

    fn rate_limit(&self, Id(id): Id) -> Option<RateLimit<'_>> {
        let displaced = self.displaced.get(&id)?;
        let record = self.conflicts.records.get(displaced)?;
        let limit = self.policy_of(record)?.rate_max?;
        let rates = self.rates.get(record.reservation.owner.as_str());
        rates.map(|rates| rates.left_of(limit))
    }

    fn check(&mut self, Id(id): Id, was: &Grant, new: &Grant) -> Result<(), Refusal> {
        let may = self.may_have(id, was, new);
        may.then_some(())
            .ok_or_else(|| Refusal::FollowingBooked(was.end()))
    }
}
