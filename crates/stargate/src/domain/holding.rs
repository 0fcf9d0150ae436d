//! First phase: hold capacity in every domain of a path.

use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::trc::Trc;

use super::hold_share::HoldShare;
use super::machine::{Answer, Domain};
use super::reservation::{Reservation, Stage};
use crate::key::{DomainId, Hop, Key, Segment};
use crate::message::Body;
use crate::record::{Child, StoredReservation, StoredStage};
use crate::refusal::Refusal;
use crate::resources::Resources;

impl<R: Resources> Domain<R> {
    /// Starts a reservation as source domain with vector, guard time and legs that were found before. Returns the
    /// reason if the local calendar refuses.
    ///
    /// Each leg is a chain of hops that begins at a neighbor. `segments` are the parts of the paths in this domain.
    pub fn reserve(
        &mut self,
        now: Instant,
        key: Key,
        (segments, legs): (Vec<Segment>, Vec<Vec<Hop>>),
        (vector, guard): (Trc, Duration),
    ) -> Result<(), Refusal> {
        let stored = self.planned(now, key, (segments, legs), (vector, guard))?;
        self.begin(now, (stored, HoldShare::NONE))
    }

    /// Returns the reservation of a source domain, before its hold.
    pub(crate) fn planned(
        &self,
        now: Instant,
        key: Key,
        (segments, legs): (Vec<Segment>, Vec<Vec<Hop>>),
        (vector, guard): (Trc, Duration),
    ) -> Result<StoredReservation, Refusal> {
        let key = key.root();
        let timing = self.config.timing;
        let hold_till = now + timing.hold;
        let decide_till = hold_till + timing.decide;
        if decide_till > vector.start() {
            return Err(Refusal::Times);
        }
        let child = |(leg, hops): (u8, Vec<Hop>)| {
            let neighbor = hops.first()?.domain;
            Some(Child {
                neighbor,
                leg,
                hops,
            })
        };
        let children: Option<Vec<Child>> = (0..).zip(legs).map(child).collect();
        Ok(StoredReservation {
            key,
            upstream: None,
            segments,
            children: children.ok_or(Refusal::NoPath)?,
            trace: [self.config.me].into(),
            vector,
            guard,
            hold_till,
            decide_till,
            stage: StoredStage::Holding,
            lost: None,
        })
    }

    pub(crate) fn handle_hold(&mut self, now: Instant, sender: (DomainId, Instant), body: Body) {
        let Body::Hold {
            key,
            hops,
            mut trace,
            vector,
            hold_till,
            decide_till,
        } = body
        else {
            return;
        };
        let from = sender.0;
        if let Some(known) = self.reservations.get(&key) {
            if let Some(answer) = self.answer_again(from, known) {
                self.send(now, from, answer);
            }
            return;
        }
        let times = (hold_till, decide_till);
        let checked = self.check_route(now, sender, &hops, &trace);
        let checked = checked.and_then(|next| {
            let share = self.share(now, hops[0].segment, &vector);
            self.check_policy(now, from, (&vector, share), times)?;
            let is_own = trace.first() == Some(&key.source);
            is_own.then_some((next, share)).ok_or(Refusal::Misrouted)
        });
        trace.push(self.config.me);
        let held = checked.and_then(|(next, share)| {
            let children = next.map(|neighbor| Child {
                neighbor,
                leg: key.leg,
                hops: hops[1..].to_vec(),
            });
            let stored = StoredReservation {
                key,
                upstream: Some(from),
                segments: [hops[0].segment].into(),
                children: children.into_iter().collect(),
                trace,
                vector,
                guard: Duration::ZERO,
                hold_till,
                decide_till,
                stage: StoredStage::Holding,
                lost: None,
            };
            self.begin(now, (stored, share))
        });
        if let Err(refusal) = held {
            self.send(now, from, Body::Refused { key, refusal });
        }
    }

    /// Returns the answer to a `Hold` that was received before.
    fn answer_again(&self, from: DomainId, known: &Reservation) -> Option<Body> {
        let key = known.key();
        if known.stored.upstream != Some(from) {
            let refusal = Refusal::Loop(self.config.me);
            return Some(Body::Refused { key, refusal });
        }
        match known.stage {
            Stage::Held => Some(Body::Held { key }),
            Stage::Closing | Stage::Closed => Some(Body::Refused {
                key,
                refusal: known.refusal,
            }),
            Stage::Holding | Stage::Committing | Stage::Committed => None,
        }
    }

    /// Holds the local capacity, stores the reservation, and asks the children.
    fn begin(
        &mut self,
        now: Instant,
        (stored, share): (StoredReservation, HoldShare),
    ) -> Result<(), Refusal> {
        let mut children = stored.children.iter();
        if children.any(|child| self.usage.is_silent(child.neighbor)) {
            return Err(Refusal::NoAnswer);
        }
        let (key, segments) = (stored.key, &stored.segments);
        self.resources.hold(now, key, segments, &stored.vector)?;
        let mut reservation = Reservation::new(stored, Stage::Holding);
        reservation.share = share;
        self.persist(&reservation);
        self.ask_children(now, &mut reservation);
        self.check_held(now, &mut reservation);
        self.keep(reservation);
        Ok(())
    }

    /// Sends the request of the present stage to all children that have not answered, and sets the retry timer. Notifies
    /// a parent that does not know of the end yet.
    pub(crate) fn ask_children(&mut self, now: Instant, reservation: &mut Reservation) {
        let stored = &reservation.stored;
        if let Some(upstream) = stored.upstream.filter(|_| reservation.is_notifying) {
            let (key, refusal) = (stored.key, reservation.refusal);
            self.send(now, upstream, Body::Notify { key, refusal });
        }
        let children = stored.legs().zip(&reservation.answered);
        let children = children.filter(|(_, answered)| !**answered);
        let children = children.map(|((leg, child), _)| (stored.has_lost(leg), child.clone()));
        let children: Vec<(bool, Child)> = children.collect();
        let has_lost = children.iter().any(|(is_lost, _)| *is_lost);
        for (is_lost, child) in children {
            let key = reservation.key().with_leg(child.leg);
            let body = match reservation.stage {
                Stage::Committed if is_lost => Body::Release { key },
                Stage::Holding => Body::Hold {
                    key,
                    hops: child.hops,
                    trace: reservation.stored.trace.clone(),
                    vector: reservation.stored.vector.clone(),
                    hold_till: reservation.stored.hold_till,
                    decide_till: reservation.stored.decide_till,
                },
                Stage::Held | Stage::Closed => continue,
                Stage::Committing | Stage::Committed => Body::Commit { key },
                Stage::Closing if reservation.refusal == Refusal::Released => Body::Release { key },
                Stage::Closing => Body::Abort { key },
            };
            self.send(now, child.neighbor, body);
        }
        let timing = self.config.timing;
        let every = match reservation.stage {
            Stage::Committed if !has_lost => timing.refresh,
            Stage::Holding
            | Stage::Held
            | Stage::Committing
            | Stage::Committed
            | Stage::Closing
            | Stage::Closed => (reservation.retry_every * 2).clamp(timing.retry, timing.retry_max),
        };
        reservation.retry_every = every;
        reservation.retry_at = now + every;
    }

    /// Enters a stage and asks all children.
    pub(crate) fn enter(&mut self, now: Instant, reservation: &mut Reservation, stage: Stage) {
        reservation.enter(stage);
        reservation.retry_every = Duration::ZERO;
        self.ask_children(now, reservation);
    }

    /// Continues once all children hold: a participant answers, the source domain commits.
    pub(crate) fn check_held(&mut self, now: Instant, reservation: &mut Reservation) {
        if !reservation.all_answered() {
            return;
        }
        match reservation.stored.upstream {
            Some(upstream) => {
                reservation.enter(Stage::Held);
                let key = reservation.key();
                self.send(now, upstream, Body::Held { key });
            }
            None => self.start_commit(now, reservation),
        }
    }

    /// Handles the answer of a child. If the reservation is unknown or given up, the child must give it up, too.
    pub(crate) fn handle_answer(&mut self, now: Instant, from: DomainId, key: Key, answer: Answer) {
        let is_known = self.change(self.parent_key(key), |domain, reservation| {
            let Some(nth) = reservation.child(from, key.leg) else {
                domain.ignored += 1;
                return;
            };
            domain.take_answer(now, reservation, nth, answer);
        });
        if !is_known {
            match answer {
                Answer::Held => self.send(now, from, Body::Abort { key }),
                Answer::Committed => self.send(now, from, Body::Release { key }),
                Answer::Refused(_) | Answer::Gone(_) => self.ignored += 1,
            }
        }
    }

    fn take_answer(
        &mut self,
        now: Instant,
        reservation: &mut Reservation,
        nth: usize,
        answer: Answer,
    ) {
        match (reservation.stage, answer) {
            (Stage::Holding, Answer::Held) => {
                reservation.answered[nth] = true;
                self.check_held(now, reservation);
            }
            (Stage::Committing, Answer::Committed) => {
                reservation.answered[nth] = true;
                self.check_committed(now, reservation);
            }
            (Stage::Holding, Answer::Refused(refusal))
            | (Stage::Holding | Stage::Held | Stage::Committing, Answer::Gone(refusal)) => {
                self.close(now, reservation, refusal);
            }
            (Stage::Committed, Answer::Gone(refusal)) => {
                let leg = reservation.stored.legs().nth(nth).map_or(0, |(leg, _)| leg);
                self.lose(now, reservation, leg, refusal);
                if reservation.stored.has_lost(leg) {
                    reservation.answered[nth] = true;
                }
            }
            (Stage::Closing, Answer::Gone(_)) => {
                reservation.answered[nth] = true;
                reservation.check_closed(now);
            }
            (Stage::Closing | Stage::Closed, Answer::Held | Answer::Committed) => {
                let child = &reservation.stored.children[nth];
                let (neighbor, key) = (child.neighbor, reservation.key().with_leg(child.leg));
                self.send(now, neighbor, Body::Abort { key });
            }
            (Stage::Held | Stage::Committing | Stage::Committed, Answer::Held)
            | (Stage::Holding | Stage::Held | Stage::Committed, Answer::Committed)
            | (
                Stage::Held | Stage::Committing | Stage::Committed | Stage::Closing | Stage::Closed,
                Answer::Refused(_),
            )
            | (Stage::Closed, Answer::Gone(_)) => {}
        }
    }
}
