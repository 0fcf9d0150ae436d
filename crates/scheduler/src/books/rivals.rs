//! Reservations that another one could disturb: those of the same packets at one interface, and those of one owner.
//!
//! Links and interfaces have room for what the calendar grants. Beside that, two circuits of one interface never carry the
//! same packets at one time, a device keeps so many circuits, and an owner has so much capacity at once.

use std::collections::BTreeMap;

use lighthaul_schedule::{Grant, Topology};

use super::config::Config;
use super::quota::Tally;
use super::record::{Record, steps};
use crate::error::{Error, Result};
use crate::word::{FlowAt, Moment, Step};

/// All reservations, as they are and as some of them will be.
#[derive(Debug)]
pub(super) struct Rivals<'a> {
    pub(super) config: &'a Config,
    pub(super) records: &'a BTreeMap<u64, Record>,
    pub(super) tally: &'a Tally,
    /// Steps of those that were moved and are not written down yet.
    pub(super) moved: BTreeMap<u64, Vec<Step>>,
}

/// A reservation that is wanted, or is to be changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish<'a> {
    /// Its number, if it has one.
    pub(super) id: Option<u64>,
    pub(super) owner: &'a str,
    pub(super) flow: Option<&'a FlowAt>,
    pub(super) steps: &'a [Step],
    /// Whether the policy of the owner binds it.
    pub(super) is_bound: bool,
}

/// A reservation whose packets are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rival {
    id: u64,
    from: Moment,
    pub(super) till: Moment,
}

impl Rivals<'_> {
    /// A reservation whose circuit would carry packets of this one at the same time; the one that ends last.
    pub(super) fn rival(&self, wish: &Wish<'_>) -> Option<Rival> {
        let flow = wish.flow?;
        let (from, till) = span(wish.steps)?;
        let others = self.tally.circuits(&flow.interface);
        let others = others.filter(|id| Some(*id) != wish.id);
        let rivals = others.filter_map(|id| {
            let reservation = &self.records.get(&id)?.reservation;
            let packets = reservation.request.flow.as_ref()?.packets;
            let own = self.steps(id)?;
            let (begins, ends) = span(own)?;
            let meet = begins < till && from < ends;
            (meet && packets.overlaps(&flow.packets)).then_some(Rival {
                id,
                from: begins,
                till: ends,
            })
        });
        rivals.max_by_key(|rival| rival.till)
    }

    /// Refuses what another circuit stands in the way of, or what the owner has no right to.
    pub(super) fn check(&self, wish: &Wish<'_>) -> Result<()> {
        if let (Some(rival), Some(flow)) = (self.rival(wish), wish.flow) {
            return Err(rival.refusal(flow));
        }
        self.check_rate(wish)
    }

    /// Refuses one more circuit than the device of its interface keeps.
    pub(super) fn check_room(&self, topology: &Topology, flow: Option<&FlowAt>) -> Result<()> {
        let Some(interface) = flow.map(|flow| &flow.interface) else {
            return Ok(());
        };
        let limits = topology
            .interface(interface)
            .and_then(|(_, port)| port.limits);
        let most = limits.map_or(0, |limits| limits.circuits_max);
        if self.tally.circuits(interface).count() < most {
            return Ok(());
        }
        Err(Error::Overlap(format!(
            "interface {interface} keeps {most} circuits and all are reserved; omit flow (--interface), or try again when a \
             reservation has ended"
        )))
    }

    /// Whether a reservation may be moved to what it would be granted, which is noted then.
    pub(super) fn let_move(&mut self, id: u64, grant: &Grant, is_bound: bool) -> bool {
        let Some(record) = self.records.get(&id) else {
            return true;
        };
        let steps = steps(&grant.joined());
        let may = self.check(&Wish {
            id: Some(id),
            owner: &record.reservation.owner,
            flow: record.reservation.request.flow.as_ref(),
            steps: &steps,
            is_bound,
        });
        let may = may.is_ok();
        if may {
            self.moved.insert(id, steps);
        }
        may
    }

    fn check_rate(&self, wish: &Wish<'_>) -> Result<()> {
        let policy = self.config.policy_of(wish.owner);
        if !wish.is_bound || policy.rate_max.is_none() {
            return Ok(());
        }
        let others = self.tally.owned(wish.owner);
        let others = others.filter(|id| Some(*id) != wish.id);
        let others: Vec<Step> = others
            .filter_map(|id| self.steps(id))
            .flatten()
            .copied()
            .collect();
        let (most, beside) = peak(wish.steps, &others);
        policy.check_rate(wish.owner, most, beside)
    }

    fn steps(&self, id: u64) -> Option<&[Step]> {
        let moved = self.moved.get(&id).map(Vec::as_slice);
        moved.or_else(|| Some(&self.records.get(&id)?.reservation.steps))
    }
}

impl Rival {
    /// A refusal that says whose packets they are and when.
    pub(super) fn refusal(&self, flow: &FlowAt) -> Error {
        let Self { id, from, till } = self;
        let FlowAt { interface, packets } = flow;
        Error::Overlap(format!(
            "reservation {id} carries packets of \"{packets}\" at {interface} from {from} till {till}; choose other ports or \
             addresses, or another time"
        ))
    }

    /// The same, with the first start at which the packets are free for long enough.
    pub(super) fn refusal_till(&self, flow: &FlowAt, free: Moment) -> Error {
        let Self { id, from, till } = self;
        let FlowAt { interface, packets } = flow;
        Error::Overlap(format!(
            "reservation {id} carries packets of \"{packets}\" at {interface} from {from} till {till}; choose other ports or \
             addresses, or a start at {free}"
        ))
    }
}

/// The moments at which steps begin and end.
pub(super) fn span(steps: &[Step]) -> Option<(Moment, Moment)> {
    Some((steps.first()?.from, steps.last()?.till))
}

/// The highest sum of rates at one time during some steps, and what of it others have.
fn peak(steps: &[Step], others: &[Step]) -> (u64, u64) {
    let sum = |all: &[Step], at: Moment| -> u64 {
        let now = all.iter().filter(|step| step.from <= at && at < step.till);
        now.map(|step| step.rate_bps).sum()
    };
    // a sum is highest where some step begins
    let starts = steps.iter().chain(others).map(|step| step.from);
    let sums = starts.filter_map(|at| {
        let own = sum(steps, at);
        let beside = sum(others, at);
        (own > 0).then_some((own + beside, beside))
    });
    sums.max().unwrap_or((0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(from: u64, till: u64, rate_bps: u64) -> Step {
        Step {
            from: Moment(from),
            till: Moment(till),
            rate_bps,
        }
    }

    #[test]
    fn a_peak_is_found_wherever_it_is() {
        let own = [step(10, 20, 5), step(20, 30, 2)];
        assert_eq!(peak(&own, &[]), (5, 0));
        assert_eq!(peak(&own, &[step(0, 10, 100), step(30, 40, 100)]), (5, 0));
        assert_eq!(peak(&own, &[step(25, 40, 9)]), (11, 9));
        assert_eq!(peak(&own, &[step(0, 11, 1), step(15, 16, 3)]), (8, 3));
        assert_eq!(peak(&[], &[step(0, 1, 1)]), (0, 0));
    }
}
