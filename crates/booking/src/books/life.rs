//! What somebody does with a reservation.

use lighthaul_circuit::reservation::{State, Verb};

use super::ledger::Ledger;
use super::who::Act;
use crate::error::Result;
use crate::word::Provision;

impl Ledger {
    /// Takes up what is held; its circuits are made if it was asked for so.
    pub(super) fn commit(&mut self, act: Act<'_>, id: u64) -> Result<()> {
        let provision = self.record(act.who, id)?.reservation.request.provision;
        self.turn(act, id, Verb::Commit)?;
        if provision == Provision::Auto {
            let why = "with the commit";
            self.turn(Act { why, ..act }, id, Verb::Provision)?;
        }
        Ok(())
    }

    /// Does what an owner may do.
    pub(super) fn handle(&mut self, act: Act<'_>, id: u64, verb: Verb) -> Result<()> {
        self.record(act.who, id)?;
        self.turn(act, id, verb)
    }

    /// Takes word from a device that a circuit carries packets; what is over or active already does not hear of it.
    pub(super) fn activate(&mut self, act: Act<'_>, id: u64) -> Result<()> {
        act.who.check_device("speak for a device")?;
        match self.state(id) {
            Some(State::Provisioned) => self.turn(act, id, Verb::Activate),
            _ => Ok(()),
        }
    }

    /// Takes word from a device that a circuit is broken; what is over does not hear of it.
    pub(super) fn fail(&mut self, act: Act<'_>, id: u64) -> Result<()> {
        act.who.check_device("speak for a device")?;
        match self.state(id) {
            Some(state) if !state.is_final() => self.turn(act, id, Verb::Fail),
            _ => Ok(()),
        }
    }

    fn state(&self, id: u64) -> Option<State> {
        self.records.get(&id).map(|record| record.reservation.state)
    }
}
