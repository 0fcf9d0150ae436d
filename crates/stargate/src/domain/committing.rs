//! Second phase: every domain commits after all domains below it, and the source domain decides.

use alloc::vec::Vec;

use lighthaul_base::Instant;

use super::machine::Domain;
use super::reservation::{Reservation, Stage};
use crate::key::{DomainId, Hop, Key};
use crate::message::Body;
use crate::outbox::Output;
use crate::record::LostLeg;
use crate::refusal::Refusal;
use crate::request::Outcome;
use crate::resources::Resources;

impl<R: Resources> Domain<R> {
    pub(crate) fn handle_commit(&mut self, now: Instant, from: DomainId, key: Key) {
        let is_known = self.change(key, |domain, reservation| {
            if reservation.stored.upstream != Some(from) {
                let refusal = Refusal::Unknown;
                domain.send(now, from, Body::Aborted { key, refusal });
                return;
            }
            match reservation.stage {
                Stage::Holding | Stage::Held => domain.start_commit(now, reservation),
                Stage::Committing => {}
                Stage::Committed => domain.send(now, from, Body::Committed { key }),
                Stage::Closing | Stage::Closed => {
                    let refusal = reservation.refusal;
                    domain.send(now, from, Body::Aborted { key, refusal });
                }
            }
        });
        if !is_known {
            let refusal = Refusal::Unknown;
            self.send(now, from, Body::Aborted { key, refusal });
        }
    }

    /// Asks the children to commit.
    pub(crate) fn start_commit(&mut self, now: Instant, reservation: &mut Reservation) {
        reservation.may_be_committed = true;
        self.enter(now, reservation, Stage::Committing);
        self.check_committed(now, reservation);
    }

    /// Commits the local part once all children have committed. In the source domain this is the decision.
    pub(crate) fn check_committed(&mut self, now: Instant, reservation: &mut Reservation) {
        if !reservation.all_answered() {
            return;
        }
        let key = reservation.key();
        self.resources.commit(now, key);
        reservation.enter(Stage::Committed);
        reservation.retry_every = self.config.timing.refresh;
        reservation.retry_at = now + self.config.timing.refresh;
        self.persist(reservation);
        self.program(reservation);
        match reservation.stored.upstream {
            Some(upstream) => self.send(now, upstream, Body::Committed { key }),
            None => self.report_committed(reservation),
        }
    }

    /// Passes the whole vector to the devices.
    pub(crate) fn program(&mut self, reservation: &Reservation) {
        let stored = &reservation.stored;
        for (nth, segment) in stored.kept() {
            self.outbox.push(Output::Program {
                key: stored.key,
                nth,
                segment,
                vector: stored.vector.clone(),
            });
        }
    }

    pub(crate) fn report_committed(&mut self, reservation: &Reservation) {
        let stored = &reservation.stored;
        let id = stored.key.id;
        self.forget_search(id);
        let legs = stored.legs().filter(|(leg, _)| !stored.has_lost(*leg));
        let legs = legs.map(|(_, child)| child.hops.clone());
        let outcome = Outcome::Committed {
            vector: stored.vector.clone(),
            legs: legs.collect::<Vec<Vec<Hop>>>(),
            guard: stored.guard,
        };
        self.outbox.push(Output::Outcome { id, outcome });
        if let Some(LostLeg { leg, refusal }) = stored.lost {
            let outcome = Outcome::LegLost { leg, refusal };
            self.outbox.push(Output::Outcome { id, outcome });
        }
    }

    /// Answers a child that asks if its path is still committed.
    pub(crate) fn handle_ask(&mut self, now: Instant, from: DomainId, key: Key) {
        let known = self.reservations.get(&self.parent_key(key));
        let stage = known.map(|known| {
            let nth = known.child(from, key.leg);
            let leg = nth.and_then(|nth| known.stored.legs().nth(nth));
            (known.stage, leg.map(|(leg, _)| known.stored.has_lost(leg)))
        });
        match stage {
            Some((_, None)) => self.ignored += 1,
            // this domain does not know yet
            Some((Stage::Holding | Stage::Held, Some(_))) => {}
            Some((Stage::Committing | Stage::Committed, Some(false))) => {
                self.send(now, from, Body::Commit { key });
            }
            Some((_, Some(true)) | (Stage::Closing | Stage::Closed, Some(_))) | None => {
                self.send(now, from, Body::Release { key });
            }
        }
    }

    /// Handles a timer of a committed reservation: reports ranges that have ended, asks the neighbors if they still
    /// have the reservation, and forgets it some time after its end.
    pub(crate) fn committed_timeout(&mut self, now: Instant, reservation: &mut Reservation) {
        let key = reservation.key();
        let upstream = reservation.stored.upstream;
        let steps = reservation.stored.vector.steps();
        let ended = steps.partition_point(|step| step.till <= now);
        for range in reservation.ranges_done..ended {
            let range = range as u16;
            match upstream {
                Some(upstream) => self.send(now, upstream, Body::RangeDone { key, range }),
                None => self.outbox.push(Output::RangeDone { key, range }),
            }
        }
        reservation.ranges_done = ended;
        let end = reservation.stored.vector.end();
        if now >= end + self.config.timing.linger {
            self.resources.release(now, key);
            reservation.is_forgotten = true;
            if upstream.is_none() {
                let (id, outcome) = (key.id, Outcome::Ended);
                self.outbox.push(Output::Outcome { id, outcome });
            }
        } else if now >= end {
            reservation.retry_at = Instant::NEVER;
        } else if now >= reservation.retry_at {
            if let Some(upstream) = upstream {
                self.send(now, upstream, Body::Ask { key });
            }
            self.ask_children(now, reservation);
        }
    }

    pub(crate) fn handle_range_done(&mut self, now: Instant, from: DomainId, key: Key, range: u16) {
        let known = self.reservations.get(&self.parent_key(key));
        let known = known.filter(|known| known.child(from, key.leg).is_some());
        match known.map(|known| known.stored.upstream) {
            Some(Some(upstream)) => self.send(now, upstream, Body::RangeDone { key, range }),
            Some(None) => self.outbox.push(Output::RangeDone { key, range }),
            None => self.ignored += 1,
        }
    }
}
