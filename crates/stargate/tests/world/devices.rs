//! Devices of one domain, and the agent that changes them.
//!
//! A crash ends the agent, and the devices keep their rates. Those with timers end a rate at its time even then.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_base::trc::Trc;
use lighthaul_base::{Instant, Rate};
use lighthaul_stargate::{Agent, Key, PortId, Segment};

/// Circuit: a reservation and the index of its segment.
type Circuit = (Key, u8);

#[derive(Default)]
pub(crate) struct Devices {
    agent: Agent,
    /// Circuits that the agent knows.
    programmed: BTreeSet<Circuit>,
    /// Rates, each with the time at which a timer ends it.
    rates: BTreeMap<Circuit, (Segment, Rate, Instant)>,
    pub(crate) have_timers: bool,
    /// True from a restart until circuits of earlier agents are removed.
    is_unclean: bool,
}

impl Devices {
    pub(crate) fn new(have_timers: bool) -> Self {
        Self {
            have_timers,
            ..Self::default()
        }
    }

    pub(crate) fn program(&mut self, circuit: Circuit, segment: Segment, vector: Trc) {
        self.programmed.insert(circuit);
        self.agent.program(circuit, (segment, 0), vector);
    }

    pub(crate) fn unprogram(&mut self, circuit: Circuit) {
        self.programmed.remove(&circuit);
        self.agent.unprogram(circuit);
    }

    pub(crate) fn keep_only(&mut self, circuits: &[Circuit]) {
        self.programmed.retain(|circuit| circuits.contains(circuit));
        self.agent.keep_only(circuits);
    }

    /// Ends the agent. The next one removes what it does not know before it changes anything.
    pub(crate) fn crash(&mut self) {
        self.agent = Agent::default();
        self.programmed.clear();
        self.is_unclean = true;
    }

    pub(crate) fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        self.agent.poll_timeout(now)
    }

    /// Returns the number of circuits that carry packets.
    pub(crate) fn open(&mut self, now: Instant) -> usize {
        if self.have_timers {
            self.rates.retain(|_, (_, _, till)| *till > now);
        }
        self.rates.len()
    }

    /// Applies the due rate changes one by one, and checks the devices after each.
    pub(crate) fn run(
        &mut self,
        now: Instant,
        ports: &BTreeMap<PortId, u64>,
        channel: u64,
    ) -> Result<(), String> {
        let mut changes = self.agent.changes(now);
        self.open(now);
        if std::mem::take(&mut self.is_unclean) {
            self.rates
                .retain(|circuit, _| self.programmed.contains(circuit));
            // a new agent does not know present rates
            let present = |circuit: &Circuit| self.rates.get(circuit).map(|(_, rate, _)| *rate);
            changes.sort_by_key(|change| change.rate > present(&change.circuit));
        }
        for change in changes {
            let till = now + change.left;
            match change.rate {
                Some(rate) => self
                    .rates
                    .insert(change.circuit, (change.segment, rate, till)),
                None => self.rates.remove(&change.circuit),
            };
            let Segment { ingress, egress } = change.segment;
            for (is_out, port) in [(false, ingress), (true, egress)] {
                let is_there = |segment: &Segment| {
                    let at = if is_out {
                        segment.egress
                    } else {
                        segment.ingress
                    };
                    at == port
                };
                let rates = self.rates.values();
                let rates = rates.filter(|(segment, ..)| is_there(segment));
                let sum: u64 = rates.map(|(_, rate, _)| rate.as_bps()).sum();
                if sum > ports[&port] * channel {
                    return Err(format!(
                        "devices exceed their capacity at {port:?} ({is_out}): {sum}"
                    ));
                }
            }
        }
        Ok(())
    }
}
