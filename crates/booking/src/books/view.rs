//! Queries of the books: reservations, free capacity, topology and circuits.
//!
//! These functions of `Ledger` change nothing. Users see their own reservations, and operators see
//! all of them: [`Filter`] only narrows that selection. A calendar view shows allocations of other
//! owners without their names, so that a client can plan around them. A page has at most 1,000
//! reservations, and a calendar view 20,000 steps. Rates are in bits per second.

use lighthaul_booking_client::json::{
    Allocation, Bps, CalendarView, Free, LinkView, Page, Reservation, Timestamp, TopologyView,
};
use lighthaul_booking_client::reservation::ReservationState;
use lighthaul_calendar::{Id, Link, LinkId, Topology};

use super::ledger::Ledger;
use super::principal::Principal;
use super::record;
use crate::error::{RequestError, Result, UnknownLink};

/// Selection of reservations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Owner.
    pub owner: Option<String>,
    /// State.
    pub state: Option<ReservationState>,
}

impl Ledger {
    /// Returns at most `limit` reservations with numbers above `after` that the identity may see.
    pub(super) fn list(
        &self,
        principal: &Principal,
        filter: &Filter,
        (after, limit): (u64, usize),
    ) -> Result<Page<Reservation>> {
        if let Some(owner) = &filter.owner
            && *owner != principal.name
        {
            principal.check_operator("list the reservations of others")?;
        }
        let limit = limit.clamp(1, PAGE_MAX);
        let from = after.saturating_add(1);
        let all = self
            .records
            .range(from..)
            .map(|(_, record)| &record.reservation);
        let wanted = all.filter(|reservation| {
            principal.may(&reservation.owner)
                && filter
                    .owner
                    .as_ref()
                    .is_none_or(|owner| *owner == reservation.owner)
                && filter.state.is_none_or(|state| state == reservation.state)
        });
        let mut items: Vec<Reservation> = wanted.take(limit + 1).cloned().collect();
        let has_more = items.len() > limit;
        items.truncate(limit);
        Ok(Page {
            next: items.last().filter(|_| has_more).map(|last| last.id),
            items,
        })
    }

    /// Returns the capacity of a link that is free for the identity, and the allocations.
    pub(super) fn calendar_view(
        &self,
        principal: &Principal,
        link: &str,
        now: Timestamp,
        (from, till): (Timestamp, Timestamp),
    ) -> Result<CalendarView> {
        let topology = self.calendar.topology();
        let found = topology
            .link(link)
            .and_then(|id| Some((id, topology.about(id)?)));
        let (id, about) = found.ok_or_else(|| UnknownLink(link.to_owned()))?;
        if from >= till {
            return Err(RequestError::RangeOrder.into());
        }
        if from.0.saturating_add(RECENT) < now.0 {
            return Err(RequestError::RangePassed(now).into());
        }
        // a request from a moment ago may start slightly in the past
        let (from, till) = (from.max(now), till.max(Timestamp(now.0.saturating_add(1))));
        let owner = self.config.number_of(&principal.name);
        let free = self
            .calendar
            .free(id, owner, from.instant(), till.instant());
        let free: Vec<Free> = free
            .take(STEPS_MAX + 1)
            .map(|free| Free {
                from: free.from.into(),
                till: Timestamp::from(free.till).min(till),
                bps: free.bps,
            })
            .collect();
        let mut allocations = Vec::new();
        for (Id(id), booking) in self
            .calendar
            .allocations(id, from.instant(), till.instant())
        {
            let owner = self
                .records
                .get(&id)
                .map(|record| &record.reservation.owner);
            let owner = owner.filter(|owner| principal.may(owner));
            let steps = record::steps(&booking.grant().joined());
            let within = steps
                .iter()
                .filter(|step| step.from < till && step.till > from);
            allocations.extend(within.map(|step| Allocation {
                id,
                owner: owner.cloned(),
                from: step.from.max(from),
                till: step.till.min(till),
                bps: step.rate_bps,
            }));
            if allocations.len() > STEPS_MAX {
                break;
            }
        }
        if free.len().max(allocations.len()) > STEPS_MAX {
            return Err(RequestError::RangeSteps(STEPS_MAX).into());
        }
        allocations.sort_by_key(|allocation| (allocation.from, allocation.id));
        Ok(CalendarView {
            link: link.to_owned(),
            capacity_bps: about.capacity.as_bps(),
            free,
            allocations,
        })
    }

    /// Returns the hosts, switches and links.
    pub(super) fn topology_view(&self) -> TopologyView {
        let topology = self.calendar.topology();
        TopologyView {
            nodes: topology.nodes().map(|(_, name)| name.to_owned()).collect(),
            links: topology
                .links()
                .map(|(id, link)| LinkView {
                    interfaces: interfaces(topology, id),
                    ..link_view(link)
                })
                .collect(),
        }
    }

    /// Returns all reservations that need a circuit at a device now.
    pub(super) fn circuits(&self) -> Vec<Reservation> {
        let records = self
            .usage
            .all_circuits()
            .filter_map(|id| self.records.get(&id));
        let reservations = records.map(|record| &record.reservation);
        let wanted = reservations.filter(|reservation| {
            matches!(
                reservation.state,
                ReservationState::Provisioned | ReservationState::Active
            )
        });
        let mut wanted: Vec<Reservation> = wanted.cloned().collect();
        wanted.sort_unstable_by_key(|reservation| reservation.id);
        wanted
    }
}

/// Returns the interfaces of a link at which circuits are made.
fn interfaces(topology: &Topology, link: LinkId) -> Vec<String> {
    let ports = topology.interfaces().iter();
    let ports = ports.filter(|port| port.limits.is_some() && port.links.contains(&link));
    ports.map(|port| port.name.clone()).collect()
}

fn link_view(link: &Link) -> LinkView {
    LinkView {
        name: link.name.clone(),
        from: link.from.clone(),
        to: link.to.clone(),
        capacity_bps: Bps::from(link.capacity).0,
        channel_bps: Bps::from(link.channel).0,
        guard_ns: link.guard.as_nanos() as u64,
        cost: link.cost,
        interfaces: Vec::new(),
    }
}

/// Tolerated age of a start of "now", for clocks that differ: one minute in nanoseconds.
const RECENT: u64 = 60_000_000_000;
/// Maximum number of reservations in a page.
const PAGE_MAX: usize = 1000;
/// Maximum number of steps in a calendar view.
const STEPS_MAX: usize = 20_000;
