//! State transitions of reservations.

use lighthaul_booking_client::json::Provision;
use lighthaul_booking_client::reservation::{ReservationState, Verb};

use super::ledger::Ledger;
use super::principal::Action;
use crate::error::Result;

impl Ledger {
    /// Commits a reservation, and provisions it if the request says so.
    pub(super) fn commit(&mut self, act: Action<'_>, id: u64) -> Result<()> {
        let provision = self
            .record(act.principal, id)?
            .reservation
            .request
            .provision;
        self.transition(act, id, Verb::Commit)?;
        if provision == Provision::Auto {
            let why = "with the commit";
            self.transition(Action { why, ..act }, id, Verb::Provision)?;
        }
        Ok(())
    }

    /// Makes a transition that the owner may make.
    pub(super) fn handle(&mut self, act: Action<'_>, id: u64, verb: Verb) -> Result<()> {
        self.record(act.principal, id)?;
        self.transition(act, id, verb)
    }

    /// Notes that a device reports packets on a circuit. Reservations in other states than
    /// provisioned do not change.
    pub(super) fn activate(&mut self, act: Action<'_>, id: u64) -> Result<()> {
        act.principal.check_device("speak for a device")?;
        match self.state(id) {
            Some(ReservationState::Provisioned) => self.transition(act, id, Verb::Activate),
            _ => Ok(()),
        }
    }

    /// Fails a reservation because a device reports a broken circuit. Reservations that have ended
    /// do not change.
    pub(super) fn fail(&mut self, act: Action<'_>, id: u64) -> Result<()> {
        act.principal.check_device("speak for a device")?;
        match self.state(id) {
            Some(state) if !state.is_final() => self.transition(act, id, Verb::Fail),
            _ => Ok(()),
        }
    }

    fn state(&self, id: u64) -> Option<ReservationState> {
        self.records.get(&id).map(|record| record.reservation.state)
    }
}
