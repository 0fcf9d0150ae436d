//! Devices that only record their calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lighthaul_base::{Instant, Rate};
use lighthaul_domains::devices::Carried;
use lighthaul_domains::{DeviceFault, Devices};
use lighthaul_stargate::{Key, RateChange, Segment};

/// Devices that only record their calls. Clones share the record.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordingDevices {
    recorded: Arc<Mutex<Recorded>>,
}

/// Calls and rates of recording devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Number of resets.
    pub(crate) resets: u64,
    /// Changes in their order, each with its time.
    pub(crate) changes: Vec<(Instant, RateChange)>,
    /// Present rates.
    pub(crate) rates: BTreeMap<(Key, u8), (Segment, Rate)>,
    /// Interfaces that are reported as empty while there are no rates.
    pub(crate) empty: BTreeSet<String>,
    /// Circuits whose next change fails.
    pub(crate) failing: Vec<(Key, u8)>,
}

impl RecordingDevices {
    /// Returns the changes that were recorded so far.
    pub(crate) fn recorded(&self) -> Recorded {
        self.lock().clone()
    }

    /// Lets the next change of a circuit fail.
    pub(crate) fn fail_next(&self, circuit: (Key, u8)) {
        self.lock().failing.push(circuit);
    }

    /// Reports an interface as empty while there are no rates.
    pub(crate) fn report_empty(&self, interface: &str) {
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

    fn carried(&self) -> Vec<Arc<Carried>> {
        let recorded = self.lock();
        let rates = recorded.rates.iter();
        let rates = rates.map(|(circuit, (_, rate))| (*circuit, Some(rate.as_bps())));
        vec![Arc::new(rates.collect())]
    }

    fn empty(&self) -> BTreeSet<String> {
        let recorded = self.lock();
        let empty = recorded.empty.iter().filter(|_| recorded.rates.is_empty());
        empty.cloned().collect()
    }
}
