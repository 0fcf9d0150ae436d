//! Early end of a reservation: abort, release, failure, and the timers that cause it.

use alloc::vec::Vec;

use lighthaul_base::Instant;

use super::machine::{Answer, Domain};
use super::reservation::{Reservation, Stage};
use crate::key::{CorrelationId, DomainId, Key};
use crate::message::Body;
use crate::outbox::Output;
use crate::record::LostLeg;
use crate::refusal::Refusal;
use crate::request::Outcome;
use crate::resources::Resources;

impl<R: Resources> Domain<R> {
    /// Releases a request of this domain, or stops its search.
    pub fn release(&mut self, now: Instant, id: CorrelationId) {
        let was_searching = self.forget_search(id);
        let held = self.attempts(id).filter(|key| {
            let known = self.reservations.get(key);
            known.is_some_and(Reservation::is_held)
        });
        let held: Vec<Key> = held.collect();
        if was_searching && held.is_empty() {
            let outcome = Outcome::Refused(Refusal::Released);
            self.outbox.push(Output::Outcome { id, outcome });
        }
        for key in held {
            self.change(key, |domain, reservation| {
                domain.close(now, reservation, Refusal::Released);
            });
        }
    }

    /// Gives up a reservation, since a device of this domain failed at one of its segments. Its neighbors are notified.
    /// A protected path keeps its other leg.
    pub fn fail(&mut self, now: Instant, (key, nth): (Key, u8)) {
        let refusal = Refusal::DeviceFailed;
        self.change(key, |domain, reservation| match reservation.stage {
            Stage::Committed => domain.lose(now, reservation, nth.into(), refusal),
            Stage::Holding | Stage::Held | Stage::Committing => {
                domain.close(now, reservation, refusal);
            }
            Stage::Closing | Stage::Closed => {}
        });
    }

    /// Releases a leg of a committed path that has failed. A path without another leg is given up.
    pub(crate) fn lose(
        &mut self,
        now: Instant,
        reservation: &mut Reservation,
        leg: usize,
        refusal: Refusal,
    ) {
        let (key, stored) = (reservation.key(), &mut reservation.stored);
        if stored.has_lost(leg) {
            return;
        }
        let segment = stored.segments.get(leg).copied();
        let Some(segment) = segment.filter(|_| stored.kept().count() > 1) else {
            self.close(now, reservation, refusal);
            return;
        };
        let nth = leg as u8;
        stored.lost = Some(LostLeg { leg: nth, refusal });
        self.resources.release_segment(now, key, segment);
        self.persist(reservation);
        self.outbox.push(Output::Unprogram { key, nth });
        let outcome = Outcome::LegLost { leg: nth, refusal };
        self.outbox.push(Output::Outcome {
            id: key.id,
            outcome,
        });
        self.enter(now, reservation, Stage::Committed);
    }

    /// Handles `Abort` or `Release` of the parent, and answers as soon as the end is durable.
    pub(crate) fn handle_close(
        &mut self,
        now: Instant,
        from: DomainId,
        key: Key,
        refusal: Refusal,
    ) {
        let mut is_owner = true;
        self.change(key, |domain, reservation| {
            is_owner = reservation.stored.upstream == Some(from);
            if is_owner && reservation.is_held() {
                domain.give_up(now, reservation, refusal);
            } else if is_owner && reservation.is_notifying {
                reservation.is_notifying = false;
                reservation.check_closed(now);
            }
        });
        let answer = if is_owner && refusal == Refusal::Released {
            Body::Released { key }
        } else {
            Body::aborted(key)
        };
        self.send(now, from, answer);
    }

    /// Handles the message of a child that it has given up a committed reservation, and confirms it.
    pub(crate) fn handle_notify(
        &mut self,
        now: Instant,
        (from, key): (DomainId, Key),
        refusal: Refusal,
    ) {
        let known = self.reservations.get(&self.parent_key(key));
        let is_child = known.is_none_or(|known| known.child(from, key.leg).is_some());
        self.handle_answer(now, from, key, Answer::Gone(refusal));
        if is_child {
            self.send(now, from, Body::Release { key });
        }
    }

    /// Gives up a reservation, and informs the parent or the local caller. The message about a committed one is repeated
    /// until the parent answers it.
    pub(crate) fn close(&mut self, now: Instant, reservation: &mut Reservation, refusal: Refusal) {
        let was = reservation.stage;
        reservation.is_notifying = was == Stage::Committed && reservation.stored.upstream.is_some();
        self.give_up(now, reservation, refusal);
        let key = reservation.key();
        let Some(upstream) = reservation.stored.upstream else {
            self.report_closed(now, key, was, refusal);
            return;
        };
        let body = match was {
            Stage::Holding => Body::Refused { key, refusal },
            // sent with the messages to the children
            Stage::Committed => return,
            Stage::Held | Stage::Committing | Stage::Closing | Stage::Closed => {
                Body::Aborted { key, refusal }
            }
        };
        self.send(now, upstream, body);
    }

    /// Frees the local capacity, stores the end, and asks the children to give up.
    fn give_up(&mut self, now: Instant, reservation: &mut Reservation, refusal: Refusal) {
        let key = reservation.key();
        self.resources.release(now, key);
        let was_committed = reservation.stage == Stage::Committed;
        self.charge_idle_hold(now, reservation, refusal);
        reservation.refusal = refusal;
        reservation.enter(Stage::Closing);
        self.persist(reservation);
        if was_committed {
            for (nth, _) in reservation.stored.kept() {
                self.outbox.push(Output::Unprogram { key, nth });
            }
        }
        self.enter(now, reservation, Stage::Closing);
        reservation.check_closed(now);
    }

    /// Charges the neighbor that could have committed a hold, and let it expire or gave it up.
    fn charge_idle_hold(&mut self, now: Instant, reservation: &Reservation, refusal: Refusal) {
        let is_idle = matches!(
            refusal,
            Refusal::Expired | Refusal::Aborted | Refusal::Released
        );
        let upstream = reservation.stored.upstream;
        let upstream = upstream.filter(|_| is_idle && reservation.stage == Stage::Held);
        let neighbors = &self.config.neighbors;
        if let Some((neighbor, policy)) = upstream.and_then(|one| neighbors.get_key_value(&one)) {
            let time = reservation.share.time(now);
            self.usage
                .charge((*neighbor, now), time, policy.uncommitted_per_hour);
        }
    }

    fn report_closed(&mut self, now: Instant, key: Key, was: Stage, refusal: Refusal) {
        let id = key.id;
        let outcome = match was {
            Stage::Committed if refusal == Refusal::Released => Outcome::Released,
            Stage::Committed => Outcome::Failed(refusal),
            Stage::Holding | Stage::Held | Stage::Committing | Stage::Closing | Stage::Closed => {
                if self.searches.contains_key(&id) {
                    self.search_refused(now, id, refusal);
                    return;
                }
                Outcome::Refused(refusal)
            }
        };
        self.outbox.push(Output::Outcome { id, outcome });
    }

    /// Handles the timer of a reservation.
    pub(crate) fn reservation_timeout(&mut self, now: Instant, reservation: &mut Reservation) {
        let (hold_till, decide_till) =
            (reservation.stored.hold_till, reservation.stored.decide_till);
        match reservation.stage {
            Stage::Holding | Stage::Held if now >= hold_till => {
                self.close(now, reservation, Refusal::Expired);
            }
            Stage::Committing if now >= decide_till => {
                self.close(now, reservation, Refusal::Undecided);
            }
            Stage::Committed => self.committed_timeout(now, reservation),
            Stage::Closing if now >= reservation.close_till(self.config.timing.linger) => {
                reservation.is_forgotten = true;
            }
            Stage::Closed => reservation.is_forgotten = now >= hold_till,
            Stage::Holding | Stage::Held | Stage::Committing | Stage::Closing => {
                self.ask_children(now, reservation);
            }
        }
    }
}
