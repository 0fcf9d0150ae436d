//! Conflicts between reservations: equal packets at one interface, and the common limits of one
//! owner.
//!
//! The calendar grants only free capacity of links and interfaces. In addition, two circuits of an
//! interface never carry the same packets at the same time. A device has a maximum number of
//! circuits, and an owner has a maximum rate.

use std::collections::BTreeMap;

use lighthaul_booking_client::json::{FlowAt, Step, Timestamp};
use lighthaul_calendar::Topology;

use super::config::Config;
use super::rate_sum::RateSum;
use super::record::Record;
use super::step_counter::StepCounter;
use super::usage::Usage;
use crate::error::{self, OverlapError, PolicyError};

/// All reservations, with pending moves.
#[derive(Debug)]
pub(super) struct Conflicts<'a> {
    pub(super) config: &'a Config,
    pub(super) records: &'a BTreeMap<u64, Record>,
    pub(super) usage: &'a Usage,
    pub(super) step_counter: &'a StepCounter,
    /// Steps of reservations that were moved but not stored yet.
    pub(super) moved: BTreeMap<u64, Vec<Step>>,
}

/// New or changed reservation to check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'a> {
    /// Number, if it has one.
    pub(super) id: Option<u64>,
    pub(super) owner: &'a str,
    pub(super) flow: Option<&'a FlowAt>,
    pub(super) steps: &'a [Step],
    /// True if the policy of the owner applies.
    pub(super) is_bound: bool,
}

/// Reservation with the same packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conflict {
    id: u64,
    from: Timestamp,
    pub(super) till: Timestamp,
}

impl<'a> Conflicts<'a> {
    /// Returns the view of these reservations, without pending moves.
    pub(super) const fn new(
        config: &'a Config,
        records: &'a BTreeMap<u64, Record>,
        usage: &'a Usage,
        step_counter: &'a StepCounter,
    ) -> Self {
        Self {
            config,
            records,
            usage,
            step_counter,
            moved: BTreeMap::new(),
        }
    }

    /// Returns the last reservation whose circuit would carry packets of this one at the same time.
    pub(super) fn conflict(&self, candidate: &Candidate<'_>) -> Option<Conflict> {
        let flow = candidate.flow?;
        let (from, till) = span(candidate.steps)?;
        let others = self.usage.circuits(&flow.interface);
        let others = others.filter(|id| Some(*id) != candidate.id);
        let conflicts = others.filter_map(|id| {
            let reservation = &self.records.get(&id)?.reservation;
            let packets = reservation.request.flow.as_ref()?.packets;
            let own = self.steps(id)?;
            let (begins, ends) = span(own)?;
            let meet = begins < till && from < ends;
            (meet && packets.overlaps(&flow.packets)).then_some(Conflict {
                id,
                from: begins,
                till: ends,
            })
        });
        conflicts.max_by_key(|conflict| conflict.till)
    }

    /// Refuses a conflict with another circuit or with the rate limit of the owner. The reservation
    /// that the candidate replaces does not count.
    pub(super) fn check(&self, candidate: &Candidate<'_>) -> error::Result<()> {
        if let (Some(conflict), Some(flow)) = (self.conflict(candidate), candidate.flow) {
            return Err(conflict.refusal(flow, None).into());
        }
        Ok(self.check_rate(candidate)?)
    }

    /// Refuses a circuit above the maximum of its interface.
    pub(super) fn check_room(
        &self,
        topology: &Topology,
        flow: Option<&FlowAt>,
    ) -> Result<(), OverlapError> {
        let Some(interface) = flow.map(|flow| &flow.interface) else {
            return Ok(());
        };
        let limits = topology
            .interface(interface)
            .and_then(|(_, port)| port.limits);
        let most = limits.map_or(0, |limits| limits.circuits_max);
        if self.usage.circuits(interface).count() < most {
            return Ok(());
        }
        Err(OverlapError::InterfaceFull {
            interface: interface.clone(),
            most,
        })
    }

    fn check_rate(&self, candidate: &Candidate<'_>) -> Result<(), PolicyError> {
        let policy = self.config.policy_of(candidate.owner);
        if !candidate.is_bound || policy.rate_max.is_none() {
            return Ok(());
        }
        let rates = self.usage.rates(candidate.owner);
        self.step_counter.add(candidate.steps);
        let (most, beside) = rates.map_or_else(
            || RateSum::default().peak(candidate.steps),
            |rates| rates.peak(candidate.steps),
        );
        policy.check_rate(candidate.owner, most, beside)
    }

    fn steps(&self, id: u64) -> Option<&[Step]> {
        let moved = self.moved.get(&id).map(Vec::as_slice);
        let steps = moved.or_else(|| Some(&self.records.get(&id)?.reservation.steps))?;
        self.step_counter.add(steps);
        Some(steps)
    }
}

impl Conflict {
    /// Returns the error of a conflict. `free` is the first start without a conflict, if it is known.
    pub(super) fn refusal(&self, flow: &FlowAt, free: Option<Timestamp>) -> OverlapError {
        OverlapError::Packets {
            id: self.id,
            packets: flow.packets,
            interface: flow.interface.clone(),
            from: self.from,
            till: self.till,
            free,
        }
    }
}

/// Returns the start and the end of steps.
pub(super) fn span(steps: &[Step]) -> Option<(Timestamp, Timestamp)> {
    Some((steps.first()?.from, steps.last()?.till))
}
