//! Checks of a query or a hold before it reaches the local calendar.

use alloc::collections::BTreeSet;

use lighthaul_base::trc::Trc;
use lighthaul_base::{Instant, Rate};

use super::hold_share::HoldShare;
use super::machine::Domain;
use crate::key::{DomainId, HOPS_MAX, Hop, Segment};
use crate::offer::RANGES_MAX;
use crate::refusal::Refusal;
use crate::resources::Resources;

impl<R: Resources> Domain<R> {
    /// Checks the route of a message and the clock of its sender. Returns the next domain, if there is one.
    pub(crate) fn check_route(
        &self,
        now: Instant,
        (from, sent): (DomainId, Instant),
        hops: &[Hop],
        trace: &[DomainId],
    ) -> Result<Option<DomainId>, Refusal> {
        let policy = self.config.neighbors.get(&from).ok_or(Refusal::Misrouted)?;
        self.check_clock(now, sent)?;
        if hops.len() + trace.len() > HOPS_MAX {
            return Err(Refusal::TooLarge);
        }
        let first = hops.first().ok_or(Refusal::Misrouted)?;
        if first.domain != self.config.me || trace.last() != Some(&from) {
            return Err(Refusal::Misrouted);
        }
        let mut seen: BTreeSet<DomainId> = trace.iter().copied().collect();
        for hop in hops {
            if !seen.insert(hop.domain) {
                return Err(Refusal::Loop(hop.domain));
            }
        }
        let next = hops.get(1).map(|hop| hop.domain);
        let crosses = next.is_some() || self.topology.leaves(first.domain, first.segment.egress);
        if crosses && !policy.transit {
            return Err(Refusal::NoTransit);
        }
        if let Some(next) = next.filter(|next| !self.config.neighbors.contains_key(next)) {
            return Err(Refusal::UnknownNeighbor(next));
        }
        let may_be_tree = next.is_none() && trace.len() == 1;
        self.check_ports(from, first.segment, (next, may_be_tree))?;
        Ok(next)
    }

    /// Checks that a path enters over a published link from the previous domain. It leaves over one to the next domain,
    /// or at a port that no link enters.
    ///
    /// In a tree the source domain asks each domain itself, with a single hop. So the path may enter over a link from
    /// any domain.
    fn check_ports(
        &self,
        from: DomainId,
        segment: Segment,
        (next, may_be_tree): (Option<DomainId>, bool),
    ) -> Result<(), Refusal> {
        let (me, topology) = (self.config.me, &self.topology);
        let (ingress, egress) = (segment.ingress, segment.egress);
        let enters =
            topology.joins(from, me, ingress) || may_be_tree && topology.enters(me, ingress);
        if !enters {
            return Err(Refusal::UnknownPort(ingress));
        }
        let leaves = match next {
            Some(next) => topology.joins(me, next, egress),
            None => topology.leaves(me, egress) || !topology.enters(me, egress),
        };
        leaves.then_some(()).ok_or(Refusal::UnknownPort(egress))
    }

    /// Refuses a message that was sent at another time than now.
    fn check_clock(&self, now: Instant, sent: Instant) -> Result<(), Refusal> {
        let (ahead, behind) = (sent.since(now), now.since(sent));
        if ahead.max(behind) <= self.config.timing.clock_tolerance {
            return Ok(());
        }
        let nanos = |time: core::time::Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        Err(Refusal::ClockOffset(if ahead > behind {
            nanos(ahead)
        } else {
            -nanos(behind)
        }))
    }

    /// Returns the share of the capacity that a hold takes from now on.
    pub(crate) fn share(&mut self, now: Instant, segment: Segment, vector: &Trc) -> HoldShare {
        let capacity = self.resources.capacity(segment);
        capacity.map_or(HoldShare::NONE, |capacity| {
            HoldShare::new(now, vector, capacity)
        })
    }

    /// Checks the times and rates of a vector, and the quotas of the neighbor.
    pub(crate) fn check_policy(
        &self,
        now: Instant,
        from: DomainId,
        (vector, share): (&Trc, HoldShare),
        (hold_till, decide_till): (Instant, Instant),
    ) -> Result<(), Refusal> {
        let policy = self.config.neighbors.get(&from).ok_or(Refusal::Misrouted)?;
        let is_in_order =
            now < hold_till && hold_till <= decide_till && decide_till <= vector.start();
        if !is_in_order || decide_till > now + self.config.timing.hold_max {
            return Err(Refusal::Times);
        }
        if vector.steps().len() > RANGES_MAX {
            return Err(Refusal::TooLarge);
        }
        if vector.end() > now + policy.horizon {
            return Err(Refusal::Horizon);
        }
        if vector
            .steps()
            .iter()
            .any(|step| step.rate > policy.rate_max)
        {
            return Err(Refusal::RateLimit);
        }
        let total = policy.rate_total_max;
        if total < Rate::UNLIMITED && !self.usage.has_left(from, total, vector) {
            return Err(Refusal::RateLimit);
        }
        let (neighbor, limit) = ((from, now), policy.uncommitted_per_hour);
        let charged = self.usage.uncommitted(neighbor, limit);
        if !charged.is_zero() && charged.saturating_add(share.time(decide_till)) > limit {
            return Err(Refusal::Quota);
        }
        let (all, held) = self.usage.of(from);
        let most = policy.reservations_max;
        if held >= most || all >= most.saturating_mul(REMEMBERED) {
            return Err(Refusal::Quota);
        }
        Ok(())
    }
}

/// Remembered reservations of a neighbor, also given-up ones, for each reservation that it may have.
const REMEMBERED: usize = 4;
