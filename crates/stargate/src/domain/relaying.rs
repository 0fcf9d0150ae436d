//! Queries of neighbors, answered with the capacity of this domain and of all domains after it on the path.

use lighthaul_base::trc::Step;
use lighthaul_base::{Instant, Rate};

use super::machine::{Domain, Timer};
use super::relay::Relay;
use crate::key::{DomainId, PortId, QueryId, Segment};
use crate::message::Body;
use crate::offer::{Offer, RANGES_MAX};
use crate::refusal::Refusal;
use crate::resources::Resources;

impl<R: Resources> Domain<R> {
    pub(crate) fn handle_query(&mut self, now: Instant, sender: (DomainId, Instant), body: Body) {
        let Body::Query {
            query,
            hops,
            mut trace,
            from,
            till,
            is_protected,
        } = body
        else {
            return;
        };
        let upstream = sender.0;
        let next = self.check_route(now, sender, &hops, &trace);
        let next = next.and_then(|next| {
            let is_own = trace.first() == Some(&query.source);
            is_own.then_some(next).ok_or(Refusal::Misrouted)
        });
        let found = next.and_then(|next| {
            let segment = hops[0].segment;
            let shared = segment.egress;
            let shared = (is_protected && next.is_none()).then_some(shared);
            let window = (from, till);
            let offer = self.limited_offer(now, upstream, (segment, shared), window)?;
            Ok((next, offer))
        });
        let (next, offer) = match found {
            Ok((None, offer)) => return self.send(now, upstream, Body::Offer { query, offer }),
            Err(refusal) => return self.send(now, upstream, Body::NoOffer { query, refusal }),
            Ok((Some(next), offer)) => (next, offer),
        };
        if self.is_full(upstream, query) {
            let refusal = Refusal::Quota;
            return self.send(now, upstream, Body::NoOffer { query, refusal });
        }
        self.relay_timeout(upstream, query);
        let till_relay = now + self.config.timing.query;
        let relay = Relay {
            next,
            offer,
            till: till_relay,
        };
        self.timers
            .insert((till_relay, Timer::Relay(upstream, query)));
        self.relays.insert((upstream, query), relay);
        trace.push(self.config.me);
        let hops = hops[1..].to_vec();
        let body = Body::Query {
            query,
            hops,
            trace,
            from,
            till,
            is_protected,
        };
        self.send(now, next, body);
    }

    /// Returns the capacity that a neighbor may have in a window. Two legs of a protected path may share a port.
    fn limited_offer(
        &mut self,
        now: Instant,
        upstream: DomainId,
        (segment, shared): (Segment, Option<PortId>),
        (from, till): (Instant, Instant),
    ) -> Result<Offer, Refusal> {
        let policy = self.config.neighbors.get(&upstream);
        let policy = *policy.ok_or(Refusal::Misrouted)?;
        let (from, till) = (from.max(now), till.min(now + policy.horizon));
        if from >= till {
            return Err(Refusal::Horizon);
        }
        let offer = match shared {
            Some(port) => self.resources.free_twice(segment, (from, till), port)?,
            None => self.resources.free(segment, from, till)?,
        };
        let limited = offer.steps().iter().map(|step| Step {
            rate: step.rate.min(policy.rate_max),
            ..*step
        });
        let limited = Offer::new(offer.unit(), limited.collect());
        let limited = limited.and_then(|limited| limited.with_losses(offer.losses()));
        let limited = limited.ok_or(Refusal::TooLarge)?;
        if policy.rate_total_max == Rate::UNLIMITED {
            return Ok(limited);
        }
        let mut left = self
            .usage
            .left(upstream, policy.rate_total_max, (from, till));
        left.retain(|step| step.rate >= offer.unit());
        left.truncate(RANGES_MAX);
        let left = Offer::new(offer.unit(), left);
        // both legs may come from this neighbor
        let left = if shared.is_some() {
            left.and_then(|left| left.halved())
        } else {
            left
        };
        let within = left.and_then(|left| limited.intersect(&left));
        let within = within.filter(|within| !within.steps().is_empty());
        within.ok_or(Refusal::RateLimit)
    }

    fn is_full(&self, upstream: DomainId, query: QueryId) -> bool {
        let policy = self.config.neighbors.get(&upstream);
        let most = policy.map_or(0, |policy| policy.reservations_max);
        let open = self.relays.keys();
        let open = open.filter(|(from, known)| *from == upstream && *known != query);
        open.count() >= most
    }

    /// Intersects the answer of the next domain with this domain's capacity, and passes it back.
    pub(crate) fn relay_offer(
        &mut self,
        now: Instant,
        from: DomainId,
        query: QueryId,
        answer: Result<Offer, Refusal>,
    ) {
        let mut relays = self.relays.iter();
        let found = relays.find(|((_, known), relay)| *known == query && relay.next == from);
        let Some((upstream, relay)) = found.map(|((upstream, _), relay)| (*upstream, relay)) else {
            self.ignored += 1;
            return;
        };
        let both = answer.and_then(|offer| {
            let both = relay.offer.intersect(&offer);
            both.ok_or(Refusal::NoCapacity)
        });
        self.relay_timeout(upstream, query);
        let body = match both {
            Ok(offer) => Body::Offer { query, offer },
            Err(refusal) => Body::NoOffer { query, refusal },
        };
        self.send(now, upstream, body);
    }

    /// Forgets a query. Its source has timers of its own.
    pub(crate) fn relay_timeout(&mut self, upstream: DomainId, query: QueryId) {
        if let Some(relay) = self.relays.remove(&(upstream, query)) {
            self.timers
                .remove(&(relay.till, Timer::Relay(upstream, query)));
        }
    }
}
