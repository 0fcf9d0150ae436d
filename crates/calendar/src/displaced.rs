//! Outages, and the bookings that they displace.

use alloc::vec::Vec;

use lighthaul_base::Instant;

use crate::booking::Id;
use crate::calendar::Calendar;
use crate::change::{MoveRules, Moved, NoRules};
use crate::outage::Outage;
use crate::refusal::Refusal;
use crate::topology::LinkId;

/// Result of an outage for the bookings on its link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Displaced {
    /// Bookings with a new time or path. Some end later than promised before.
    pub moved: Vec<Moved>,
    /// Bookings without a new place. They keep their steps before the outage, and are deleted if
    /// there are none.
    pub lost: Vec<Id>,
}

impl Calendar {
    /// Adds an outage under an unused number. Bookings that it affects are placed again, the
    /// highest priority first. Others do not change.
    pub fn outage(&mut self, now: Instant, id: Id, outage: Outage) -> Result<Displaced, Refusal> {
        self.outage_by(now, id, outage, &mut NoRules)
    }

    /// Adds an outage like [`Self::outage`], and moves bookings within `rules`.
    pub fn outage_by(
        &mut self,
        now: Instant,
        id: Id,
        outage: Outage,
        rules: &mut impl MoveRules,
    ) -> Result<Displaced, Refusal> {
        self.check_id(id)?;
        if self.topology().about(outage.link).is_none() {
            return Err(Refusal::UnknownLink);
        }
        if outage.from >= outage.till {
            return Err(Refusal::Empty);
        }
        if outage.till <= now {
            return Err(Refusal::StartPassed(now));
        }
        if self.outages.len() >= OUTAGES_MAX {
            return Err(Refusal::CalendarFull(OUTAGES_MAX));
        }
        let outage = Outage {
            from: self.config.slot_until(outage.from),
            till: self.config.slot_from(outage.till),
            ..outage
        };
        let from = self.first_from(outage.from.max(now));
        let hit = self.in_turn(|booking| booking.has(outage.link, from, outage.till));
        rules.displace(&hit);
        self.outages.insert(id, outage);
        self.apply_outages(outage.link);
        let mut displaced = Displaced::default();
        for id in hit {
            let Some(need) = self.booking(id).map(|booking| booking.request.need) else {
                continue;
            };
            if let Ok(moved) = self.renew(now, id, need, rules) {
                displaced.moved.push(moved);
                continue;
            }
            self.cut(id, from);
            let rest = self.booking(id).map(|booking| booking.grant.steps.len());
            if rest == Some(0) {
                self.bookings.remove(id);
            }
            displaced.lost.push(id);
        }
        Ok(displaced)
    }

    /// Removes an outage. Bookings that it displaced stay where they are until the next repack.
    pub fn lift(&mut self, id: Id) -> Result<Outage, Refusal> {
        let outage = self.outages.remove(&id).ok_or(Refusal::NotFound(id))?;
        self.apply_outages(outage.link);
        Ok(outage)
    }

    /// Returns all outages by their numbers.
    pub fn outages(&self) -> impl Iterator<Item = (Id, &Outage)> {
        self.outages.iter().map(|(id, outage)| (*id, outage))
    }

    /// Applies all outages of a link to its capacity.
    fn apply_outages(&mut self, link: LinkId) {
        let outages = self.outages.values().filter(|outage| outage.link == link);
        let resource = &mut self.resources[link.0 as usize];
        resource.set_outages(outages.map(|outage| (outage.from, outage.till)));
    }
}

const OUTAGES_MAX: usize = 10_000;
