//! Devices that only record their calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lighthaul_base::{Instant, Rate};
use lighthaul_stargate::{Key, RateChange, Segment};

use super::contract::{DeviceFault, Devices};

/// Devices that only record their calls. Clones share the record.
#[derive(Clone, Debug, Default)]
pub struct RecordingDevices {
    recorded: Arc<Mutex<Recorded>>,
}

/// Calls and rates of recording devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Number of resets.
    pub resets: u64,
    /// Changes in their order, each with its time.
    pub changes: Vec<(Instant, RateChange)>,
    /// Present rates.
    pub rates: BTreeMap<(Key, u8), (Segment, Rate)>,
    /// Interfaces that are reported as empty while there are no rates.
    pub empty: BTreeSet<String>,
    /// Circuits whose next change fails.
    pub failing: Vec<(Key, u8)>,
}

impl RecordingDevices {
    /// Returns the changes that were recorded so far.
    pub fn recorded(&self) -> Recorded {
        self.lock().clone()
    }

    /// Lets the next change of a circuit fail.
    pub fn fail_next(&self, circuit: (Key, u8)) {
        self.lock().failing.push(circuit);
    }

    /// Reports an interface as empty while there are no rates.
    pub fn report_empty(&self, interface: &str) {
        self.lock().empty.insert(interface.to_owned());
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Devices for RecordingDevices {
    fn reset(&mut self, at: Instant, rates: &[RateChange]) -> Vec<DeviceFault> {
        let mut recorded = self.lock();
        recorded.resets += 1;
        recorded.rates.clear();
        drop(recorded);
        self.apply(at, rates)
    }

    fn apply(&mut self, at: Instant, changes: &[RateChange]) -> Vec<DeviceFault> {
        let mut recorded = self.lock();
        let mut faults = Vec::new();
        for change in changes {
            let circuit = change.circuit;
            if let Some(nth) = recorded.failing.iter().position(|one| *one == circuit) {
                recorded.failing.remove(nth);
                let why = "a test asked for this fault".to_owned();
                faults.push(DeviceFault { circuit, why });
                continue;
            }
            recorded.changes.push((at, *change));
            match change.rate {
                Some(rate) => recorded.rates.insert(circuit, (change.segment, rate)),
                None => recorded.rates.remove(&circuit),
            };
        }
        faults
    }

    fn empty(&self) -> BTreeSet<String> {
        let recorded = self.lock();
        let empty = recorded.empty.iter().filter(|_| recorded.rates.is_empty());
        empty.cloned().collect()
    }
}
