//! Gate that holds requests to a store until a test opens it.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Counts requests that are in work at a time, and holds them until it is open.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    is_open: bool,
    now: usize,
    most: usize,
}

impl Gate {
    /// Holds a request until the gate is open.
    pub(crate) fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.now += 1;
        state.most = state.most.max(state.now);
        let is_closed = |state: &mut GateState| !state.is_open;
        let waited = self
            .changed
            .wait_timeout_while(state, GATE_TIMEOUT, is_closed);
        waited.unwrap().0.now -= 1;
    }

    /// Lets all requests pass.
    pub(crate) fn open(&self) {
        self.state.lock().unwrap().is_open = true;
        self.changed.notify_all();
    }

    /// Returns the number of requests that wait or are in work.
    pub(crate) fn now(&self) -> usize {
        self.state.lock().unwrap().now
    }

    /// Returns the largest number so far.
    pub(crate) fn most(&self) -> usize {
        self.state.lock().unwrap().most
    }
}

/// Time after which a closed gate opens, so that a test that fails ends.
const GATE_TIMEOUT: Duration = Duration::from_mins(1);
