//! Source side of a request: query all candidates, reserve the best, and try the next if it is refused.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::Instant;

use super::machine::{Domain, Timer};
use super::reservation::Stage;
use super::search::{Candidate, Leg, Phase, Search};
use crate::key::{CorrelationId, DomainId, Key, QueryId, ROOT};
use crate::message::Body;
use crate::offer::Offer;
use crate::outbox::Output;
use crate::record::StoredReservation;
use crate::refusal::Refusal;
use crate::request::{Outcome, Protection, Request};
use crate::resources::Resources;
use crate::routes::candidates;

impl<R: Resources> Domain<R> {
    /// Starts a request of the local caller. A request with a known correlation ID is answered with its outcome, or
    /// ignored while it has none.
    pub fn request(&mut self, now: Instant, request: Request) {
        self.search(now, request, false);
    }

    /// Searches the path of a request of the local caller, without a reservation. The outcome is the best offer.
    pub fn preview(&mut self, now: Instant, request: Request) {
        self.search(now, request, true);
    }

    fn search(&mut self, now: Instant, request: Request, is_preview: bool) {
        let id = request.id;
        if self.searches.contains_key(&id) || self.answer_known(id) {
            return;
        }
        let me = self.config.me;
        let paths = candidates(&self.topology, me, &request, self.config.paths_max);
        let paths = paths
            .into_iter()
            .map(|hops| Candidate::new(hops, request.signaling));
        let neighbors = &self.config.neighbors;
        let paths: Vec<Candidate> = paths
            .filter(|path| path.neighbors().all(|next| neighbors.contains_key(&next)))
            .collect();
        if paths.is_empty() {
            self.refuse(id, Refusal::NoPath);
            return;
        }
        let search = Search {
            is_preview,
            ..Search::new(request, paths)
        };
        self.searches.insert(id, search);
        self.begin_round(now, id);
    }

    /// Answers a request that has reservations already.
    fn answer_known(&mut self, id: CorrelationId) -> bool {
        let keys: Vec<Key> = self.attempts(id).collect();
        let Some(known) = keys.last().and_then(|key| self.reservations.get(key)) else {
            return false;
        };
        let (stage, refusal) = (known.stage, known.refusal);
        match stage {
            Stage::Committed => {
                let known = known.clone();
                self.report_committed(&known);
            }
            Stage::Closing | Stage::Closed => self.refuse(id, refusal),
            Stage::Holding | Stage::Held | Stage::Committing => {}
        }
        true
    }

    fn refuse(&mut self, id: CorrelationId, refusal: Refusal) {
        let outcome = Outcome::Refused(refusal);
        self.outbox.push(Output::Outcome { id, outcome });
    }

    /// Stops a search. Returns true if there was one.
    pub(crate) fn forget_search(&mut self, id: CorrelationId) -> bool {
        let Some(search) = self.searches.remove(&id) else {
            return false;
        };
        self.timers.remove(&(search.wake, Timer::Search(id)));
        self.forget_queries(&search);
        true
    }

    fn forget_queries(&mut self, search: &Search) {
        let legs = search.candidates.iter().flat_map(|one| &one.legs);
        for leg in legs {
            self.asked.remove(&leg.number);
        }
    }

    /// Takes a search out, lets `step` change it, and sets its timer again.
    fn change_search(&mut self, id: CorrelationId, step: impl FnOnce(&mut Self, &mut Search)) {
        if let Some(mut search) = self.searches.remove(&id) {
            self.timers.remove(&(search.wake, Timer::Search(id)));
            step(self, &mut search);
            search.wake = search.next_timer();
            self.timers.insert((search.wake, Timer::Search(id)));
            self.searches.insert(id, search);
        }
    }

    fn begin_round(&mut self, now: Instant, id: CorrelationId) {
        self.change_search(id, |domain, search| {
            domain.forget_queries(search);
            let timing = domain.config.timing;
            search.phase = Phase::Querying;
            search.till = now + timing.query;
            search.start_min = search.till + timing.hold + timing.decide;
            search.retry_every = Duration::ZERO;
            for (nth, candidate) in search.candidates.iter_mut().enumerate() {
                candidate.is_open = true;
                for (leg, one) in candidate.legs.iter_mut().enumerate() {
                    one.number = domain.rng.next_u64();
                    one.offer = None;
                    domain.asked.insert(one.number, (id, nth, leg));
                }
            }
            domain.send_queries(now, search);
        });
        if self.searches.get(&id).is_some_and(Search::is_complete) {
            self.try_best(now, id);
        }
    }

    /// Sends all queries without an answer.
    fn send_queries(&mut self, now: Instant, search: &mut Search) {
        let from = search.start_min.max(search.request.from);
        let has_two = search.request.protection == Protection::Disjoint;
        let open = search.candidates.iter().filter(|one| one.is_open);
        let legs = open.flat_map(|one| &one.legs);
        for leg in legs.filter(|leg| leg.offer.is_none()) {
            let query = QueryId {
                source: self.config.me,
                number: leg.number,
            };
            let body = Body::Query {
                query,
                hops: leg.hops.clone(),
                trace: [self.config.me].into(),
                from,
                till: search.request.till,
                is_protected: has_two && ends_in(leg, search.request.to),
            };
            self.send(now, leg.hops[0].domain, body);
        }
        let timing = self.config.timing;
        search.retry_every = (search.retry_every * 2).clamp(timing.retry, timing.retry_max);
        search.retry_at = now + search.retry_every;
    }

    /// Handles the answer to a query of this domain, or forwards it.
    pub(crate) fn handle_offer(
        &mut self,
        now: Instant,
        from: DomainId,
        query: QueryId,
        answer: Result<Offer, Refusal>,
    ) {
        if query.source != self.config.me {
            self.relay_offer(now, from, query, answer);
            return;
        }
        let Some((id, nth, leg)) = self.asked.get(&query.number).copied() else {
            self.ignored += 1;
            return;
        };
        let Some(search) = self.searches.get_mut(&id) else {
            return;
        };
        let candidate = &mut search.candidates[nth];
        if candidate.legs[leg].hops[0].domain != from {
            self.ignored += 1;
            return;
        }
        self.asked.remove(&query.number);
        match answer {
            Ok(offer) => candidate.legs[leg].offer = Some(offer),
            Err(refusal) => {
                candidate.is_open = false;
                search.refusal = refusal;
            }
        }
        if search.phase == Phase::Querying && search.is_complete() {
            self.try_best(now, id);
        }
    }

    pub(crate) fn search_timeout(&mut self, now: Instant, id: CorrelationId) {
        let Some(search) = self.searches.get(&id) else {
            return;
        };
        match search.phase {
            Phase::Querying if now >= search.till => self.try_best(now, id),
            Phase::Querying => {
                self.change_search(id, |domain, search| domain.send_queries(now, search));
            }
            Phase::Waiting => self.begin_round(now, id),
            Phase::Reserving => self.change_search(id, |_, _| {}),
        }
    }

    /// Tries the next candidate after the reservation of the present one was refused.
    pub(crate) fn search_refused(&mut self, now: Instant, id: CorrelationId, refusal: Refusal) {
        self.change_search(id, |_, search| search.close_used(refusal));
        self.try_best(now, id);
    }

    /// Reserves the best candidate. If there is none, waits for the next round or refuses the request.
    fn try_best(&mut self, now: Instant, id: CorrelationId) {
        loop {
            let mut choice = None;
            let mut attempt = 0;
            self.change_search(id, |domain, search| {
                // an answer that did not come, and a hold that expired, have taken time
                let timing = domain.config.timing;
                let start_min = now + timing.hold + timing.decide;
                search.start_min = search.start_min.max(start_min);
                choice = search.best(&mut domain.resources);
                if let Some(choice) = &choice {
                    search.used.clone_from(&choice.candidates);
                    search.phase = Phase::Reserving;
                    attempt = search.attempt;
                    search.attempt = attempt.saturating_add(1);
                }
            });
            let Some(choice) = choice.filter(|_| attempt < u8::MAX) else {
                self.next_round(now, id);
                return;
            };
            let key = Key {
                source: self.config.me,
                id,
                attempt,
                leg: ROOT,
            };
            let parts = (choice.segments, choice.legs);
            let fitted = (choice.vector, choice.guard);
            let is_preview = self.searches.get(&id).is_some_and(|one| one.is_preview);
            let tried = if is_preview {
                self.planned(now, key, parts, fitted)
                    .map(|planned| self.show(id, planned))
            } else {
                self.reserve(now, key, parts, fitted)
            };
            let Err(refusal) = tried else {
                return;
            };
            self.change_search(id, |_, search| search.close_used(refusal));
        }
    }

    /// Ends a preview with its best offer.
    fn show(&mut self, id: CorrelationId, planned: StoredReservation) {
        self.forget_search(id);
        let outcome = Outcome::Offered(Box::new(planned));
        self.outbox.push(Output::Outcome { id, outcome });
    }

    fn next_round(&mut self, now: Instant, id: CorrelationId) {
        let timing = self.config.timing;
        let span = timing.retry.as_nanos() as u64 * 4;
        let wait = timing.retry + Duration::from_nanos(self.rng.below(span.max(1)));
        let start = now + wait + timing.query + timing.hold + timing.decide;
        let rounds = self.config.rounds_max;
        let mut end = None;
        self.change_search(id, |_, search| {
            search.round = search.round.saturating_add(1);
            if search.round >= rounds || start >= search.request.till || search.attempt == u8::MAX {
                end = Some(search.refusal);
            }
            search.phase = Phase::Waiting;
            search.till = now + wait;
        });
        if let Some(refusal) = end {
            self.forget_search(id);
            self.refuse(id, refusal);
        }
    }
}

fn ends_in(leg: &Leg, domain: DomainId) -> bool {
    leg.hops.last().is_some_and(|hop| hop.domain == domain)
}
