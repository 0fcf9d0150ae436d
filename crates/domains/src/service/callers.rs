//! Local callers that wait for outcomes of their requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{SyncSender, TrySendError};

use lighthaul_stargate::{CorrelationId, Outcome};

/// Callers by their requests.
#[derive(Debug, Default)]
pub(super) struct Callers {
    waiting: BTreeMap<CorrelationId, Vec<SyncSender<Outcome>>>,
    /// Requests without their first outcome.
    open: BTreeSet<CorrelationId>,
}

impl Callers {
    /// Adds a caller, and notes that the request is open.
    pub(super) fn begin(&mut self, id: CorrelationId, caller: SyncSender<Outcome>) {
        self.open.insert(id);
        self.watch(id, caller);
    }

    /// Adds a caller.
    pub(super) fn watch(&mut self, id: CorrelationId, caller: SyncSender<Outcome>) {
        self.waiting.entry(id).or_default().push(caller);
    }

    /// Returns the number of requests without their first outcome.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// Passes an outcome on. Callers that wait for no more are forgotten.
    pub(super) fn report(&mut self, id: CorrelationId, outcome: &Outcome) {
        self.open.remove(&id);
        let Some(callers) = self.waiting.get_mut(&id) else {
            return;
        };
        callers.retain(|caller| match caller.try_send(outcome.clone()) {
            // a caller that does not read loses repeated outcomes
            Ok(()) | Err(TrySendError::Full(_)) => true,
            Err(TrySendError::Disconnected(_)) => false,
        });
        let is_last = match outcome {
            Outcome::Committed { .. } => false,
            Outcome::Refused(_) | Outcome::Failed(_) | Outcome::Released | Outcome::Ended => true,
        };
        if is_last || callers.is_empty() {
            self.waiting.remove(&id);
        }
    }
}
