//! Simulated device with latencies and failures from a seed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::{Rate, Rng};

use crate::circuit::CircuitId;
use crate::driver::{Capabilities, Change, Driver, InstalledCircuit};
use crate::error::{Error, Result};

/// Simulated device. Clones share its state, so that a test can inspect a device that an agent owns.
#[derive(Clone, Debug)]
pub struct SimDevice {
    device: Arc<Mutex<Device>>,
}

/// Latencies and failures of a simulated device.
#[derive(Clone, Copy, Debug)]
pub struct FaultModel {
    /// Maximum latency of a call.
    pub latency_max: Duration,
    /// Failing calls in a thousand million.
    pub fail_ppb: u64,
}

/// Fault of one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimFault {
    /// The device refuses the change.
    Refused,
    /// The device does not answer, and the change is not made.
    Unreachable,
    /// The change is made, and the answer is lost.
    AnswerLost,
}

#[derive(Debug)]
struct Device {
    capabilities: Capabilities,
    fault_model: FaultModel,
    rng: Rng,
    circuits: BTreeMap<CircuitId, InstalledCircuit>,
    /// Latest setting of each timer.
    timers: BTreeMap<CircuitId, Duration>,
    took: Duration,
    /// Number of changes in each call that has changed circuits.
    calls: Vec<usize>,
    /// Faults of the next changes.
    faults: VecDeque<Option<SimFault>>,
    /// Number of removals that fail.
    failing_removals: usize,
}

impl SimDevice {
    /// Creates a device without circuits.
    pub fn new(capabilities: Capabilities, fault_model: FaultModel, seed: u64) -> Self {
        let device = Device {
            capabilities,
            fault_model,
            rng: Rng::new(seed),
            circuits: BTreeMap::new(),
            timers: BTreeMap::new(),
            took: Duration::ZERO,
            calls: Vec::new(),
            faults: VecDeque::new(),
            failing_removals: 0,
        };
        Self {
            device: Arc::new(Mutex::new(device)),
        }
    }

    /// Sets the latencies and failures of further calls.
    pub fn set_fault_model(&self, fault_model: FaultModel) {
        self.device().fault_model = fault_model;
    }

    /// Makes a change fail with a fault, or succeed, after `after` other changes. Earlier faults are forgotten.
    pub fn fail_change(&self, fault: Option<SimFault>, after: usize) {
        let mut device = self.device();
        device.faults = vec![None; after].into();
        device.faults.push_back(fault);
    }

    /// Makes the next changes fail with a fault. Earlier faults are forgotten.
    pub fn fail_all(&self, fault: SimFault, changes: usize) {
        self.device().faults = vec![Some(fault); changes].into();
    }

    /// Makes the next removals fail.
    pub fn fail_removals(&self, count: usize) {
        self.device().failing_removals = count;
    }

    /// Returns the latency of the last call, which a simulation adds to its virtual time.
    pub fn latency(&self) -> Duration {
        self.device().took
    }

    /// Returns the number of changes in each call since the last one of this method. A removal is one change.
    pub fn take_calls(&self) -> Vec<usize> {
        std::mem::take(&mut self.device().calls)
    }

    /// Returns the circuits of the device, without a call that could fail.
    pub fn circuits(&self) -> BTreeMap<CircuitId, InstalledCircuit> {
        self.device().circuits.clone()
    }

    /// Returns the last setting of the timer of a circuit; none if the circuit stays open.
    pub fn timer(&self, id: CircuitId) -> Option<Duration> {
        self.device().timers.get(&id).copied()
    }

    /// Installs or changes a circuit without a call of the driver.
    pub fn install(&self, circuit: InstalledCircuit) {
        self.device().circuits.insert(circuit.id, circuit);
    }

    /// Removes a circuit without a call of the driver, as after a restart of the device.
    pub fn forget(&self, id: CircuitId) {
        let mut device = self.device();
        device.circuits.remove(&id);
        device.timers.remove(&id);
    }

    fn device(&self) -> MutexGuard<'_, Device> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Driver for SimDevice {
    fn capabilities(&self) -> Capabilities {
        self.device().capabilities
    }

    fn apply(&mut self, changes: &[Change<'_>]) -> Vec<Result<()>> {
        let mut device = self.device();
        device.begin();
        device.calls.push(changes.len());
        changes.iter().map(|change| device.change(change)).collect()
    }

    fn remove(&mut self, id: CircuitId) -> Result<()> {
        let mut device = self.device();
        device.begin();
        device.calls.push(1);
        device.fail_sometimes()?;
        if let Some(left) = device.failing_removals.checked_sub(1) {
            device.failing_removals = left;
            return Err(Error::Device("simulated fault".to_owned()));
        }
        device.circuits.remove(&id);
        device.timers.remove(&id);
        Ok(())
    }

    fn inspect(&mut self) -> Result<Vec<InstalledCircuit>> {
        let mut device = self.device();
        device.begin();
        device.fail_sometimes()?;
        Ok(device.circuits.values().cloned().collect())
    }
}

impl Device {
    fn begin(&mut self) {
        let most = self.fault_model.latency_max.as_nanos() as u64;
        self.took = Duration::from_nanos(self.rng.below(most.saturating_add(1)));
    }

    fn fail_sometimes(&mut self) -> Result<()> {
        if self.rng.chance_ppb(self.fault_model.fail_ppb) {
            return Err(Error::Device("simulated fault: the call failed".to_owned()));
        }
        Ok(())
    }

    fn change(&mut self, change: &Change<'_>) -> Result<()> {
        self.fail_sometimes()?;
        let fault = self.faults.pop_front().flatten();
        let reason = "simulated fault".to_owned();
        match fault {
            Some(SimFault::Refused) => return Err(Error::Device(reason)),
            Some(SimFault::Unreachable) => return Err(Error::Unreachable(reason)),
            Some(SimFault::AnswerLost) | None => {}
        }
        let id = change.circuit.id;
        if change
            .rate
            .is_some_and(|rate| self.capabilities.fit(rate) != Some(rate))
        {
            return Err(Error::Device("it cannot set this rate".to_owned()));
        }
        if !self.circuits.contains_key(&id) && self.circuits.len() >= self.capabilities.entries_max
        {
            return Err(Error::Device("it has its maximum of circuits".to_owned()));
        }
        let others = self.circuits.values().filter(|other| other.id != id);
        let others: u64 = others
            .filter_map(|other| other.rate.map(Rate::as_bps))
            .sum();
        let all = others + change.rate.map_or(0, Rate::as_bps);
        if all > self.capabilities.rate_max.as_bps() {
            return Err(Error::Device("the sum of all rates is too high".to_owned()));
        }
        let standing = InstalledCircuit {
            id,
            flow: Some(change.circuit.flow),
            rate: change.rate,
        };
        self.circuits.insert(id, standing);
        match change.timer {
            Some(timer) => self.timers.insert(id, timer),
            None => self.timers.remove(&id),
        };
        match fault {
            Some(SimFault::AnswerLost) => Err(Error::Unreachable(reason)),
            Some(SimFault::Refused | SimFault::Unreachable) | None => Ok(()),
        }
    }
}
