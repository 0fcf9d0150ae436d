//! Rules for reservations that the calendar moves: after an outage, and when others have left room.

use std::collections::BTreeMap;

use lighthaul_schedule::{Grant, Id, MoveRules, Path, Refusal, Topology};

use super::policy::Policy;
use super::rates::Rates;
use super::record::{Record, names_of, steps};
use super::rivals::{Rivals, Wish};
use crate::word::{Moment, Step};

/// Rules of the books: no other circuit carries the packets, and links, rates and ends are allowed by the policy of the
/// owner.
#[derive(Debug)]
pub(super) struct Moves<'a> {
    rivals: Rivals<'a>,
    now: Moment,
    /// True if the highest rate of an owner binds, too; a reservation that an outage hits would else lose everything.
    are_rates_bound: bool,
    /// Rates of owners, with those that were moved.
    rates: BTreeMap<&'a str, Rates>,
}

impl<'a> Moves<'a> {
    /// Rules for what others have left room for.
    pub(super) fn into_room(rivals: Rivals<'a>, now: Moment) -> Self {
        Self {
            rivals,
            now,
            are_rates_bound: true,
            rates: BTreeMap::new(),
        }
    }

    /// Rules for what an outage hits.
    pub(super) fn out_of_outage(rivals: Rivals<'a>, now: Moment) -> Self {
        Self {
            are_rates_bound: false,
            ..Self::into_room(rivals, now)
        }
    }

    /// The policy that binds a reservation.
    fn policy_of(&self, record: &Record) -> Option<&'a Policy> {
        let config = self.rivals.config;
        (!record.by_operator).then(|| config.policy_of(&record.reservation.owner))
    }

    fn may_have(&mut self, id: u64, was: &Grant, new: &Grant) -> bool {
        let Some(record) = self.rivals.records.get(&id) else {
            return true;
        };
        let owner = &record.reservation.owner;
        let steps = steps(&new.joined());
        let wish = Wish {
            id: Some(id),
            owner,
            flow: record.reservation.request.flow.as_ref(),
            steps: &steps,
            is_bound: false,
        };
        if self.rivals.rival(&wish).is_some() {
            return false;
        }
        if let Some(policy) = self.policy_of(record) {
            let is_later = new.end() > was.end();
            if is_later && policy.check_end(owner, self.now, new.end().into()).is_err() {
                return false;
            }
            if self.are_rates_bound && !self.may_have_rates(record, &steps) {
                return false;
            }
        }
        self.rivals.moved.insert(id, steps);
        true
    }

    /// Returns true if an owner may have steps in place of those of a reservation; they are counted then.
    fn may_have_rates(&mut self, record: &'a Record, steps: &[Step]) -> bool {
        let owner = record.reservation.owner.as_str();
        let policy = self.rivals.config.policy_of(owner);
        if policy.rate_max.is_none() {
            return true;
        }
        let tally = self.rivals.tally;
        let rates = self.rates.entry(owner);
        let rates = rates.or_insert_with(|| tally.rates(owner).cloned().unwrap_or_default());
        // of one booking that is moved twice, the steps of the first move count
        let own = self.rivals.moved.get(&record.reservation.id);
        let own = own.map_or(record.reservation.steps.as_slice(), Vec::as_slice);
        rates.remove(own);
        let (most, beside) = rates.peak(steps);
        let may = policy.check_rate(owner, most, beside).is_ok();
        rates.add(if may { steps } else { own });
        may
    }
}

impl MoveRules for Moves<'_> {
    fn may_take(&self, Id(id): Id, path: &Path, topology: &Topology) -> bool {
        let Some(record) = self.rivals.records.get(&id) else {
            return true;
        };
        let Some(policy) = self.policy_of(record) else {
            return true;
        };
        let reservation = &record.reservation;
        // it may stay on a link that it got before the policy was changed
        let mut new = names_of(path, topology);
        new.retain(|link| !reservation.path.contains(link));
        policy.check_links(&reservation.owner, &new).is_ok()
    }

    fn check(&mut self, Id(id): Id, was: &Grant, new: &Grant) -> Result<(), Refusal> {
        let may = self.may_have(id, was, new);
        may.then_some(()).ok_or_else(|| Refusal::Blocked(was.end()))
    }
}
