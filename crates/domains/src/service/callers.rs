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

    /// Adds a caller. The oldest one of too many callers for one request waits no longer.
    pub(super) fn watch(&mut self, id: CorrelationId, caller: SyncSender<Outcome>) {
        let callers = self.waiting.entry(id).or_default();
        if callers.len() >= CALLERS_MAX {
            callers.remove(0);
        }
        callers.push(caller);
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
            Outcome::Committed { .. } | Outcome::LegLost { .. } => false,
            Outcome::Offered(_)
            | Outcome::Refused(_)
            | Outcome::Failed(_)
            | Outcome::Released
            | Outcome::Ended => true,
        };
        if is_last || callers.is_empty() {
            self.waiting.remove(&id);
        }
    }
}

/// Maximum number of callers that wait for one request.
const CALLERS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use lighthaul_stargate::Refusal;

    use super::*;

    #[test]
    fn outcomes_reach_all_callers_including_the_last() {
        let mut callers = Callers::default();
        let (id, other) = (CorrelationId(1), CorrelationId(2));
        let (one, outcomes) = sync_channel(2);
        let (two, more) = sync_channel(2);
        callers.begin(id, one);
        callers.watch(id, two);
        assert_eq!(callers.open(), 1);
        callers.report(other, &Outcome::Ended);
        assert_eq!(callers.open(), 1);
        let vector = "0s-2s 100kb/s".parse().unwrap();
        let committed = Outcome::Committed {
            vector,
            legs: Vec::new(),
            guard: std::time::Duration::ZERO,
        };
        callers.report(id, &committed);
        callers.report(id, &Outcome::Failed(Refusal::DeviceFailed));
        callers.report(id, &Outcome::Ended);
        for outcomes in [outcomes, more] {
            let all: Vec<Outcome> = outcomes.iter().collect();
            let failed = Outcome::Failed(Refusal::DeviceFailed);
            assert_eq!(all, [committed.clone(), failed]);
        }
        assert!(callers.open() == 0 && callers.waiting.is_empty());
    }

    #[test]
    fn callers_that_have_left_or_do_not_read_delay_no_other_caller() {
        let mut callers = Callers::default();
        let id = CorrelationId(1);
        let (slow, _unread) = sync_channel(1);
        callers.begin(id, slow);
        for _ in 0..100 {
            callers.watch(id, sync_channel(1).0);
        }
        assert_eq!(callers.waiting[&id].len(), CALLERS_MAX);
        let vector = "0s-2s 100kb/s".parse().unwrap();
        let committed = Outcome::Committed {
            vector,
            legs: Vec::new(),
            guard: std::time::Duration::ZERO,
        };
        callers.report(id, &committed);
        assert!(callers.waiting.is_empty());
    }
}
