//! Outages of links.

use lighthaul_booking_client::json::{NewOutage, OutageView, Timestamp};
use lighthaul_booking_client::reservation::Verb;
use lighthaul_calendar::{Id, Outage};

use super::conflicts::Conflicts;
use super::ledger::Ledger;
use super::move_policy::MovePolicy;
use super::principal::{Action, Principal};
use crate::error::{Error, RequestError, Result, UnknownLink};

impl Ledger {
    /// Plans an outage. Affected reservations are moved, or fail if no other time or path is free.
    pub(super) fn outage(
        &mut self,
        now: Timestamp,
        principal: &Principal,
        new: &NewOutage,
    ) -> Result<OutageView> {
        principal.check_operator("plan outages")?;
        let link = self.calendar.topology().link(&new.link);
        let link = link.ok_or_else(|| RequestError::from(UnknownLink(new.link.clone())))?;
        check_times(now, new)?;
        let from = new.from.unwrap_or(now).max(now);
        let id = self.seq + 1;
        let outage = Outage {
            link,
            from: from.instant(),
            till: new.till.instant(),
        };
        let conflicts =
            Conflicts::new(&self.config, &self.records, &self.usage, &self.step_counter);
        let mut rules = MovePolicy::new(conflicts, now);
        let at = now.instant();
        let displaced = self.calendar.outage_by(at, Id(id), outage, &mut rules)?;
        self.seq = id;
        let why = match new.why.as_str() {
            "" => format!("link {} is out from {from} till {}", new.link, new.till),
            why => format!(
                "link {} is out from {from} till {}: {why}",
                new.link, new.till
            ),
        };
        let moved: Vec<u64> = displaced.moved.iter().map(|moved| moved.id.0).collect();
        let failed: Vec<u64> = displaced.lost.iter().map(|id| id.0).collect();
        let act = Action {
            now,
            principal,
            why: &why,
        };
        for id in &moved {
            self.regrant(act, *id)?;
        }
        for id in &failed {
            let lost = self.lost(*id, &why);
            self.transition(Action { why: &lost, ..act }, *id, Verb::Fail)?;
        }
        let view = OutageView {
            id,
            link: new.link.clone(),
            from,
            till: new.till,
            moved,
            failed,
        };
        self.outages.insert(id, view.clone());
        self.note_outage(id);
        Ok(view)
    }

    /// Returns the reason for which a displaced reservation fails.
    fn lost(&self, id: u64, why: &str) -> String {
        let Some(record) = self.records.get(&id) else {
            return format!("{why}; no other time or path is free");
        };
        let owner = &record.reservation.owner;
        let policy = self.config.policy_of(owner);
        let rule = policy.rate_rule(owner).filter(|_| !record.by_operator);
        let rule = rule.map(|rule| format!(", and {rule}"));
        let quota = policy.quota.bytes;
        let hours = self.config.window.as_secs() / 3600;
        let bytes = (quota < u64::MAX)
            .then(|| format!(", and {owner} may book {quota} bytes in {hours} hours"));
        format!(
            "{why}; no other time or path is free{}{}",
            rule.unwrap_or_default(),
            bytes.unwrap_or_default()
        )
    }

    /// Cancels or ends an outage.
    pub(super) fn lift(
        &mut self,
        now: Timestamp,
        principal: &Principal,
        id: u64,
    ) -> Result<OutageView> {
        principal.check_operator("lift outages")?;
        let what = "outage";
        let view = self
            .outages
            .get_mut(&id)
            .filter(|view| is_ahead(view, now))
            .ok_or(Error::NotFound { what, id })?;
        self.calendar.lift(Id(id))?;
        // other instances notice the end by this
        view.till = view.from.max(now);
        let view = view.clone();
        self.note_outage(id);
        self.repack.is_due = true;
        Ok(view)
    }

    /// Returns the outages that have not ended.
    pub(super) fn outages_ahead(&self, now: Timestamp) -> Vec<OutageView> {
        let outages = self.outages.values();
        outages
            .filter(|outage| is_ahead(outage, now))
            .cloned()
            .collect()
    }
}

/// Refuses outages that have ended or end before they start.
fn check_times(now: Timestamp, new: &NewOutage) -> Result<()> {
    let till = new.till;
    if till <= now {
        return Err(RequestError::OutagePassed { till, now }.into());
    }
    match new.from.filter(|from| *from >= till) {
        Some(from) => Err(RequestError::OutageOrder { from, till }.into()),
        None => Ok(()),
    }
}

/// Returns true if a part of the outage is in the future.
pub(super) fn is_ahead(outage: &OutageView, now: Timestamp) -> bool {
    outage.from < outage.till && now < outage.till
}
