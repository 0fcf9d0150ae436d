//! What becomes of bookings when links will be out.

use alloc::vec::Vec;

use lighthaul_base::Instant;

use crate::booking::Id;
use crate::calendar::Calendar;
use crate::change::{MoveRules, Moved, NoRules};
use crate::outage::Outage;
use crate::refusal::Refusal;
use crate::topology::LinkId;

/// What became of the bookings that an outage has put out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Displaced {
    /// They are carried at other times or on other paths, some later than was promised.
    pub moved: Vec<Moved>,
    /// There is no room for them: they keep what they had before the outage, and are gone if that is nothing.
    pub lost: Vec<Id>,
}

impl Calendar {
    /// Plans an outage, under a number that is not in use. Bookings that it hits are fitted in again, the highest priority
    /// first; nobody else is touched.
    pub fn outage(&mut self, now: Instant, id: Id, outage: Outage) -> Result<Displaced, Refusal> {
        self.outage_by(now, id, outage, &mut NoRules)
    }

    /// Plans an outage like [`Self::outage`], and moves bookings as far as `rules` allow.
    pub fn outage_by(
        &mut self,
        now: Instant,
        id: Id,
        outage: Outage,
        rules: &mut impl MoveRules,
    ) -> Result<Displaced, Refusal> {
        self.check_id(id)?;
        if self.topology().about(outage.link).is_none() {
            return Err(Refusal::Unknown);
        }
        if outage.from >= outage.till {
            return Err(Refusal::Nothing);
        }
        if outage.till <= now {
            return Err(Refusal::Past(now));
        }
        if self.outages.len() >= OUTAGES_MAX {
            return Err(Refusal::Full(OUTAGES_MAX));
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
        self.shut(outage.link);
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

    /// Lets a link be used again at the time of an outage. Those that had to move stay where they are until somebody packs
    /// again.
    pub fn lift(&mut self, id: Id) -> Result<Outage, Refusal> {
        let outage = self.outages.remove(&id).ok_or(Refusal::Missing(id))?;
        self.shut(outage.link);
        Ok(outage)
    }

    /// All outages, by their numbers.
    pub fn outages(&self) -> impl Iterator<Item = (Id, &Outage)> {
        self.outages.iter().map(|(id, outage)| (*id, outage))
    }

    /// Has a link be out at the times of its outages.
    fn shut(&mut self, link: LinkId) {
        let outages = self.outages.values().filter(|outage| outage.link == link);
        let stock = &mut self.stocks[link.0 as usize];
        stock.shut(outages.map(|outage| (outage.from, outage.till)));
    }
}

const OUTAGES_MAX: usize = 10_000;
