//! Invariants of a world.

use std::collections::BTreeSet;
use std::time::Duration;

use lighthaul_stargate::{
    CorrelationId, Domain, DomainId, Key, Stage, StoredReservation, StoredStage,
};

use crate::network::{World, is_carried};

impl World {
    /// A path that is reported as committed is durable in every domain.
    pub(crate) fn check_decision(&self, me: DomainId, id: CorrelationId) -> Result<(), String> {
        let domain = self.nodes[&me].domain.as_ref().unwrap();
        let mut own = domain.reservations();
        let own = own.find(|one| one.key().id == id && one.stage() == Stage::Committed);
        // released or failed while the record of the decision was written
        let Some(own) = own else {
            return Ok(());
        };
        for (leg, child) in own.stored().legs() {
            if own.stored().has_lost(leg) {
                continue;
            }
            for hop in &child.hops {
                let key = own.key().with_leg(child.leg);
                let stored = self.nodes[&hop.domain].store.get(&key);
                let is_committed = |stored: &StoredReservation| {
                    stored.stage == StoredStage::Committed && stored.vector == own.stored().vector
                };
                if !stored.is_some_and(is_committed) {
                    return Err(format!(
                        "{id:?} is reported as committed, but {:?} has {:?}",
                        hop.domain,
                        stored.map(|stored| stored.stage)
                    ));
                }
            }
        }
        Ok(())
    }

    fn has_left(&self, domain: DomainId) -> bool {
        self.nodes[&domain].has_left
    }

    /// No hold is left, and each path is committed everywhere or nowhere.
    pub(crate) fn check_agreement(&self) -> Result<(), String> {
        let mut committed: BTreeSet<(Key, DomainId)> = BTreeSet::new();
        let mut wanted: BTreeSet<(Key, DomainId)> = BTreeSet::new();
        for node in self.nodes.values().filter(|node| !node.has_left) {
            let domain = node.domain.as_ref().ok_or("a domain is down")?;
            // a vector that has ended may be forgotten here and not yet there
            let running = domain.reservations().filter(|one| {
                let end = one.stored().vector.end();
                !one.is_held() || end > self.now + Duration::from_secs(1)
            });
            for one in running {
                let (key, stored) = (one.key(), one.stored());
                match one.stage() {
                    Stage::Holding | Stage::Held | Stage::Committing => {
                        return Err(format!("{:?} still holds {key:?}", node.me));
                    }
                    Stage::Committed => {
                        committed.insert((key, node.me));
                    }
                    Stage::Closing | Stage::Closed => {}
                }
                if one.stage() == Stage::Committed && stored.upstream.is_none() {
                    wanted.insert((key, node.me));
                    let kept = stored.legs().filter(|(leg, _)| !stored.has_lost(*leg));
                    for (_, child) in kept {
                        let key = key.with_leg(child.leg);
                        wanted.extend(child.hops.iter().map(|hop| (key, hop.domain)));
                    }
                }
            }
        }
        let cut: BTreeSet<CorrelationId> = self.touched_by_leavers();
        let is_whole = |(key, _): &&(Key, DomainId)| !cut.contains(&key.id);
        let committed: BTreeSet<_> = committed.iter().filter(is_whole).collect();
        let wanted: BTreeSet<_> = wanted.iter().filter(is_whole).collect();
        if committed != wanted {
            let half: Vec<_> = committed.symmetric_difference(&wanted).collect();
            let id = half[0].0.id;
            let views = self.nodes.values().flat_map(|node| {
                let all = node.domain.iter().flat_map(Domain::reservations);
                let all = all.filter(|one| one.key().id == id);
                all.map(|one| format!("\n{:?}: {one:?}", node.me))
            });
            let views: String = views.collect();
            let left = self.nodes.values().filter(|node| node.has_left);
            let left: Vec<_> = left.map(|node| node.me).collect();
            return Err(format!(
                "half-committed at {}: {half:?}{views}; left: {left:?}",
                self.now
            ));
        }
        for (id, asked) in &self.asked {
            let is_lost = asked.was_interrupted && asked.outcomes.is_empty();
            if asked.outcomes.is_empty() && !is_lost && !self.has_left(asked.from) {
                return Err(format!("{id:?} has no outcome"));
            }
        }
        Ok(())
    }

    /// Requests whose path crosses a domain that has left for good.
    fn touched_by_leavers(&self) -> BTreeSet<CorrelationId> {
        let all = self.nodes.values().flat_map(|node| {
            let live = node.domain.iter().flat_map(Domain::reservations);
            let live = live.map(|one| one.stored().clone());
            let stored = node.store.values().cloned();
            live.chain(stored)
        });
        let touched = all.filter(|stored| {
            let hops = stored.children.iter().flat_map(|child| &child.hops);
            let domains = hops.map(|hop| hop.domain).chain(stored.trace.clone());
            domains.into_iter().any(|domain| self.has_left(domain))
        });
        touched.map(|stored| stored.key.id).collect()
    }

    /// After the last vector, nothing is left anywhere, and every request has ended.
    pub(crate) fn check_empty(&mut self) -> Result<(), String> {
        for node in self.nodes.values_mut() {
            let local = node.now(self.now);
            let is_open = node.devices.open(local) > 0;
            // without timers and without its service, a device keeps its rates
            if is_open && (node.devices.have_timers || !node.has_left) {
                return Err(format!("devices of {:?} stay open", node.me));
            }
            if node.has_left {
                continue;
            }
            let domain = node.domain.as_ref().ok_or("a domain is down")?;
            if let Some(one) = domain.reservations().next() {
                return Err(format!("{:?} keeps {one:?}", node.me));
            }
            if let Some(key) = node.store.keys().next() {
                return Err(format!("the store of {:?} keeps {key:?}", node.me));
            }
            let calendar = domain.resources().calendar();
            if let Some((id, _)) = calendar.bookings().next() {
                return Err(format!("the calendar of {:?} keeps {id:?}", node.me));
            }
        }
        for (id, asked) in &self.asked {
            let is_open = asked.outcomes.last().is_some_and(is_carried);
            if is_open && !asked.was_interrupted && !self.has_left(asked.from) {
                return Err(format!("{id:?} never ended"));
            }
        }
        Ok(())
    }
}
